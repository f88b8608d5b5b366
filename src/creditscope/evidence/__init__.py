"""What is left when the batches are gone: norms, directions, alignment, plain numbers."""
