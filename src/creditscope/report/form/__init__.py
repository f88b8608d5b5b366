"""The reporting form of an audit and its checklist of pitfalls."""
