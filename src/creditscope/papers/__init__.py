"""Does the published audit hold when somebody else writes the code?  Seventeen experiments, ours beside theirs."""
