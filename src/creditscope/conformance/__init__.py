"""What every credit rule promises, as functions: a stranger runs them on his own rule, our tests on ours."""
