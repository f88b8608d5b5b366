"""Booktabs tables and the reporting form for an appendix."""
