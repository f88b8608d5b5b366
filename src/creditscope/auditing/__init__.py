"""audit(): takes a trained network and batches, and returns a Report."""
