"""One recipe for every rule: fit, history, snapshots, checkpoints."""
