"""The diagnostics of an audit during training: Monitor, and the Lightning callback."""
