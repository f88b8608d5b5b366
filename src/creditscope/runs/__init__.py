"""One run: its spec, its training, its audit, its controls."""
