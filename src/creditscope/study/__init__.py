"""Studies: many runs, declared in a file, executed by an engine, kept in a store and judged over seeds."""
