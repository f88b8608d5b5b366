"""Predictions of every block from a state of its own, and the slopes of an energy of their errors.

The states of a stream are a list h_0..h_L, or one tensor (L+1, N, ...) for a network whose blocks can run as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.networks.staged import StagedNetwork

Levels = list[Tensor] | Tensor


def each(function: Callable[..., Tensor], *levels: Levels) -> Levels:
    """The function of the levels, one by one, or of all of them at once where they are stacked."""
    if isinstance(levels[0], Tensor):
        return function(*levels)
    return [function(*parts) for parts in zip(*levels, strict=True)]


@dataclass(frozen=True, slots=True)
class Forecast:
    """Every stage alone: F_l(h_l) in a graph that begins at its own h_l."""

    below: Levels
    predicted: Levels

    def errors(self, states: Levels, embedded: Tensor) -> Levels:
        """ε_0 = h_0 - embed(x),  ε_{l+1} = h_{l+1} - F_l(h_l)."""
        first, rest = states[0] - embedded, each(lambda h, p: h - p.detach(), states[1:], self.predicted)
        return torch.cat([first[None], rest]) if isinstance(rest, Tensor) else [first, *rest]

    def slopes(self, tensions: Levels, nudge: Tensor, *, again: bool = False) -> Levels:
        """p_l - (∂F_l/∂h_l)ᵀ p_{l+1} for l < L and p_L + nudge; `again` keeps the graphs for another call."""
        pulls: tuple[Tensor, ...] = ()
        if len(self.below):
            pulls = torch.autograd.grad(self.predicted, self.below, tensions[1:], retain_graph=again)
        if isinstance(tensions, Tensor):
            return torch.cat([tensions[:-1] - pulls[0] if pulls else tensions[:-1], (tensions[-1] + nudge)[None]])
        return [*(p - pull for p, pull in zip(tensions, pulls, strict=False)), tensions[-1] + nudge]


def predict(network: StagedNetwork, states: Levels) -> Forecast:
    """What every block makes of its own state, one forward pass in pieces, or in one piece where they are stacked."""
    with torch.enable_grad():
        if isinstance(states, Tensor):
            stack = states[:-1].detach().requires_grad_()
            return Forecast(stack, network.stacked_stages(stack))
        below = [state.detach().requires_grad_() for state in states[:-1]]
        return Forecast(below, network.stages_at(below))
