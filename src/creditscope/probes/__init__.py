"""Measurements that need the model itself, each in one file.

nulls            Γ by chance
interventions    ρ and nudging: how the loss responds to moved states; `perturbation` holds ρ
precision        the gradient against the same gradient in float64
label_leak       answers under permuted labels
hidden_backprop  credit under weight changes that the forward pass ignores; `block_weights` makes them
weight_drift     the distance of the weights from their initial values

`source` checks what the user passes as credit, `images` keeps the probe images, `credit` runs the probes of one credit
signal, and `probing` all probes of one audit.
"""
