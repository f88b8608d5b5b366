"""Experiments: the user's own network, loop and seeds, with their controls, trained and audited."""
