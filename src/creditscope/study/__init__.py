"""Studies: what is run (spec), where it is kept (store), on which machines (engine), against what (tables)."""
