"""The front door: a network and batches in, a Report out."""
