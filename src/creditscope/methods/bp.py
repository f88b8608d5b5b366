"""Backpropagation: the reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.methods import method
from creditscope.methods.loss import full_precision, mean_loss, widened
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Scope
from creditscope.networks.staged import StagedNetwork, Walk


class EndToEnd(CreditRule):
    """A rule that follows the graph from the loss to the embedding."""

    def following(self, network: StagedNetwork, feedback: Feedback) -> AbstractContextManager[object]:
        """A context in which the forward pass is run; it may change what the backward pass does."""
        return nullcontext()

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """One forward and one backward pass; with a penalty the signals are those of the loss without it."""
        learning = scope.parameters(network)
        with torch.enable_grad():
            loss, walk, count = self._forward(network, feedback, batch)
            with full_precision(loss.device):
                if not scope.penalty:
                    signals, gradients = _derivatives(loss, walk, count, list(learning.values()))
                else:
                    signals, _ = _derivatives(loss, walk, count, retain_graph=True)
                    sizes = [branch.square().sum() for index, branch in enumerate(walk.branches) if scope.learns(index)]
                    term = sum(sizes, torch.zeros_like(loss)) * (scope.penalty / count)
                    gradients = torch.autograd.grad(loss + term, list(learning.values()), allow_unused=True)
        named = {name: gradient for name, gradient in zip(learning, gradients, strict=True) if gradient is not None}
        return Credit(signals, named, loss.detach())

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """One forward and one backward pass each, down to the states and no further."""
        for feedback in feedbacks:
            with torch.enable_grad():
                signals, _ = _derivatives(*self._forward(network, feedback, batch))
            yield signals

    def _forward(self, network: StagedNetwork, feedback: Feedback, batch: Batch) -> tuple[Tensor, Walk, int]:
        """The mean loss, the forward pass in one graph with it, and how many losses it is the mean of."""
        with self.following(network, feedback):
            walk = network.walk(batch.inputs)
            with full_precision(walk.logits.device):
                loss, count = mean_loss(network.loss_fn, widened(walk.logits), batch.labels)
        return loss, walk, count


def _derivatives(
    loss: Tensor, walk: Walk, count: int, learning: Sequence[Tensor] = (), *, retain_graph: bool = False
) -> tuple[tuple[Tensor, ...], tuple[Tensor | None, ...]]:
    """∂ℓ_i/∂h_0..h_L of every sample, from the mean loss of `count` samples, and ∂loss/∂W of what learns."""
    both = torch.autograd.grad(loss, [*walk.anchors, *learning], retain_graph=retain_graph, allow_unused=True)
    states = len(walk.anchors)
    return tuple(walk.oriented(signal, layer) * count for layer, signal in enumerate(both[:states])), both[states:]


@method(
    "bp",
    summary="Backpropagation: the true gradient, end to end.",
    formula="a_l = g_l = ∂ℓ/∂h_l",
    paper="Rumelhart, Hinton and Williams (1986)",
    identities={
        "a_l is the gradient of each sample's own loss, to 1e-12": (
            "tests/methods/test_bp.py::test_signals_are_each_samples_own_gradient"
        ),
        "the updates are the gradients of the mean loss": (
            "tests/methods/test_bp.py::test_gradients_are_those_of_the_mean_loss"
        ),
    },
    fails="It is the reference, not a local rule: credit passes through the transpose of every weight above, and no "
    "block can learn before the loss is known.",
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
