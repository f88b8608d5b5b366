"""The diagnostics while a loop trains."""
