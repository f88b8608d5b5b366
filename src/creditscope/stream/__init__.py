"""Any nn.Module as a stream of states: how it is found, run, cut, traced and left as it was."""
