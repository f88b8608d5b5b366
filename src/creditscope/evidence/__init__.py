"""Evidence: the norms, directions, cosines and plain numbers that remain when the batches are gone."""
