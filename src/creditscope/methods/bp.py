"""Backpropagation: the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.methods import method
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Scope
from creditscope.networks.staged import StagedNetwork


class EndToEnd(CreditRule):
    """A rule that follows the graph from the loss to the embedding."""

    def following(self, network: StagedNetwork, feedback: Feedback) -> AbstractContextManager[object]:
        """A context in which the forward pass is run; it may change what the backward pass does."""
        return nullcontext()

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """One forward and one backward pass; with a penalty the signals are those of the loss without it."""
        learning = scope.parameters(network)
        with torch.enable_grad():
            states, branches, loss = self._forward(network, feedback, batch)
            count = len(batch.labels)
            if not scope.penalty:
                signals, gradients = _derivatives(loss, states, list(learning.values()), count)
            else:
                signals, _ = _derivatives(loss, states, [], count, retain_graph=True)
                sizes = [branch.square().sum() for index, branch in enumerate(branches) if scope.learns(index)]
                term = sum(sizes, torch.zeros(())) * (scope.penalty / count)
                gradients = torch.autograd.grad(loss + term, list(learning.values()), allow_unused=True)
        named = {name: gradient for name, gradient in zip(learning, gradients, strict=True) if gradient is not None}
        return Credit(signals, named, loss.detach())

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """One forward and one backward pass each, down to the states and no further."""
        for feedback in feedbacks:
            with torch.enable_grad():
                states, _, loss = self._forward(network, feedback, batch)
                signals, _ = _derivatives(loss, states, [], len(batch.labels))
            yield signals

    def _forward(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch
    ) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """h_0..h_L, f_0..f_{L-1} and the mean loss, in one graph."""
        with self.following(network, feedback):
            states, branches = [network.embedding(batch.inputs)], []
            for index in range(network.depth):
                branches.append(network.branch(index, states[-1]))
                states.append(network.merge(index, states[-1], branches[-1]))
            losses = F.cross_entropy(network.readout(states[-1]), batch.labels, reduction="none")
        return states, branches, losses.mean()


def _derivatives(
    loss: Tensor, states: list[Tensor], learning: Sequence[Tensor], count: int, *, retain_graph: bool = False
) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    """∂ℓ_i/∂h_0..h_L of every sample, from the mean loss of `count` samples, and ∂loss/∂W of what learns."""
    both = torch.autograd.grad(loss, [*states, *learning], retain_graph=retain_graph, allow_unused=True)
    return tuple(signal * count for signal in both[: len(states)]), both[len(states) :]


@method(
    "bp",
    summary="Backpropagation: the true gradient, end to end.",
    formula="a_l = g_l = ∂ℓ/∂h_l",
    paper="Rumelhart, Hinton and Williams (1986)",
)
@dataclass(frozen=True)
class Backprop(EndToEnd):
    """The true gradient, end to end: the reference of every audit."""

    uses_weights_above = True

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """No feedback."""
        return Feedback()

    def exact_layers(self, depth: int) -> frozenset[int]:
        """All of them."""
        return frozenset(range(depth + 1))
