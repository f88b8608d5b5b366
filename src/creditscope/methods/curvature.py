"""The largest curvature of an energy over the states of a network: power iteration, one vector per sample."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.methods.loss import each_loss
from creditscope.networks.staged import StagedNetwork

ITERATIONS = 20


class Curvature(nn.Module):
    """λ_max as it was last measured: saved with a run, and no weight of it."""

    largest: Tensor

    def __init__(self, largest: Tensor) -> None:
        super().__init__()
        self.register_buffer("largest", largest.clone())


def largest_curvature(
    network: StagedNetwork, states: Sequence[Tensor], labels: Tensor, rho: float, generator: torch.Generator
) -> Tensor:
    """λ_max, over the samples, of the Hessian of ℓ + (ρ/2) Σ_l ‖ε_l‖² at the states of a forward pass.

    Samples do not interact, so each has a Hessian H of its own: v ← Hv/‖Hv‖, λ = ‖Hv‖ for each of them at once. It is
    the largest |eigenvalue|, approached from below.
    """
    with torch.enable_grad():
        leaves = [state.detach().requires_grad_() for state in states]
        slopes = torch.autograd.grad(
            _energy(network, leaves, states[0].detach(), labels, rho), leaves, create_graph=True
        )
        drawn = [torch.randn(state.shape, generator=generator).to(state) for state in states]
        product, lengths = drawn, _lengths(drawn)
        for _ in range(ITERATIONS):
            direction = [v / lengths.view(-1, *[1] * (v.dim() - 1)) for v in product]
            product = list(torch.autograd.grad(slopes, leaves, direction, retain_graph=True))
            lengths = _lengths(product)
    return lengths.max()


def _energy(network: StagedNetwork, states: list[Tensor], embedded: Tensor, labels: Tensor, rho: float) -> Tensor:
    """The sum over the samples, in one graph."""
    predicted = network.stages_at(states[:-1])
    errors = [h - p for h, p in zip(states, [embedded, *predicted], strict=True)]
    squares = torch.stack([error.square().sum() for error in errors]).sum()
    logits = network.readout(states[-1])
    if network.loss_fn is None:
        return F.cross_entropy(logits, labels, reduction="sum") + rho / 2 * squares
    return each_loss(network.loss_fn, logits, labels).sum() + rho / 2 * squares


def _lengths(vectors: list[Tensor]) -> Tensor:
    """‖v‖ of each sample over all states."""
    return torch.stack([v.flatten(1).square().sum(1) for v in vectors]).sum(0).sqrt()
