"""Any nn.Module as a stream of states: finding it, running it, cutting it, tracing it, and leaving it unchanged."""
