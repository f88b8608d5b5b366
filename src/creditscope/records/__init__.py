"""Records that are written to files, each with a schema version."""
