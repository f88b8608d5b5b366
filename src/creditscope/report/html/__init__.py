"""Pages: templates with escaping on, one file for an audit, a folder for a study."""
