"""Audited papers, one folder each; creditscope finds them by the entry-point group `creditscope.papers`."""
