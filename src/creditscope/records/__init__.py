"""Whatever crosses a file border, each with a schema version."""
