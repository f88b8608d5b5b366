"""Local rules: every stage is differentiated alone, with credit as its cotangent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Scope
from creditscope.networks.staged import StagedNetwork

Normalisation = Literal["sample", "batch", "none"]


@dataclass(frozen=True, slots=True)
class LocalPass:
    """One forward pass in pieces: each stage starts from a detached state, so that no gradient crosses a border.

    hiddens   h_0..h_L, detached
    stages    h_0..h_L, each with the graph of its own stage only (no graph where the stage does not learn)
    branches  f_0..f_{L-1}, in the same graphs
    error     e = softmax(logits) - onehot(labels), one row per sample
    deepest   g_L, the exact gradient of each sample's own loss at h_L, through the read-out alone
    readout   the read-out's exact gradients of the mean loss
    """

    hiddens: tuple[Tensor, ...]
    stages: tuple[Tensor, ...]
    branches: tuple[Tensor, ...]
    error: Tensor
    deepest: Tensor
    readout: dict[str, Tensor]
    loss: Tensor
    labels: Tensor


def output_error(logits: Tensor, labels: Tensor) -> Tensor:
    """e = softmax(logits) - onehot(labels)."""
    error = F.softmax(logits, 1)
    return error.scatter_add(1, labels[:, None], -torch.ones_like(error[:, :1]))


def forward_in_pieces(network: StagedNetwork, batch: Batch, scope: Scope) -> LocalPass:
    """One forward pass; every stage that learns keeps the graph from its own parameters to its own output."""
    with torch.enable_grad():
        stages = [network.embedding(batch.inputs)]
        branches = []
        for index in range(network.depth):
            with torch.set_grad_enabled(scope.learns(index)):
                state = stages[-1].detach()
                branches.append(network.branch(index, state))
                stages.append(network.merge(index, state, branches[-1]))
        top = read_out(network, stages[-1], batch.labels)
    return LocalPass(
        hiddens=tuple(stage.detach() for stage in stages),
        stages=tuple(stages),
        branches=tuple(branches),
        error=top.error,
        deepest=top.slope,
        readout=top.gradients,
        loss=F.cross_entropy(top.logits, batch.labels),
        labels=batch.labels,
    )


@dataclass(frozen=True, slots=True)
class ReadOut:
    """The read-out at one state: logits, e, each sample's ∂ℓ/∂h_L, and its own gradients of the mean loss."""

    logits: Tensor
    error: Tensor
    slope: Tensor
    gradients: dict[str, Tensor]


def read_out(network: StagedNetwork, state: Tensor, labels: Tensor) -> ReadOut:
    """One forward and one backward pass through the read-out alone."""
    outside = {name: p for name, p in network.named_parameters() if not name.startswith("blocks.")}
    with torch.enable_grad():
        leaf = state.detach().requires_grad_()
        logits = network.readout(leaf)
        error = output_error(logits.detach(), labels)
        slope, *gradients = torch.autograd.grad(logits, [leaf, *outside.values()], error, allow_unused=True)
    named = {name: g / len(error) for name, g in zip(outside, gradients, strict=True) if g is not None}
    return ReadOut(logits.detach(), error, slope, named)


def normalise(credit: Tensor, how: Normalisation) -> Tensor:
    """â = a/rms(a): over all features of each sample, over the whole batch, or not at all; 0 where the rms is 0."""
    if how == "none":
        return credit
    if how == "batch":
        rms = credit.square().mean().sqrt()
    else:
        rms = credit.flatten(1).square().mean(1).sqrt().view(-1, *[1] * (credit.dim() - 1))
    return torch.where(rms > 0, credit / rms, torch.zeros_like(credit))


def check_normalisation(how: str) -> None:
    """Refuse a normalisation that does not exist."""
    if how not in get_args(Normalisation):
        raise InvalidInput(
            f"normalisation must be 'sample', 'batch' or 'none', got {how!r}.\n"
            "It decides whether the stream explodes, so no other value is guessed at. Choose one of the three."
        )


def normal(rows: int, columns: int, generator: torch.Generator) -> Tensor:
    """B (rows x columns) ~ N(0, 1)/√rows."""
    matrix: Tensor = torch.randn(rows, columns, generator=generator) / rows**0.5
    return matrix


def drawn_again(feedback: Feedback, generator: torch.Generator) -> Feedback:
    """Matrices B.0, B.1, ... of the same shapes, drawn in the same order."""
    shapes = {name: feedback.tensors[name].shape for name in (f"B.{layer}" for layer in range(len(feedback.tensors)))}
    return Feedback({name: normal(rows, columns, generator) for name, (rows, columns) in shapes.items()})


class LocalRule(CreditRule):
    """A rule whose blocks receive credit at their own border and differentiate nothing but themselves.

    block l minimises the batch mean of ⟨f_l(h_l), â⟩ (+ λ‖f_l(h_l)‖²), the embedding that of ⟨h_0, â_0⟩, the read-out
    the mean cross-entropy at h_L.
    """

    normalisation: Normalisation

    @abstractmethod
    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """a_0..a_L, raw."""

    def receives(self, block: int) -> int:
        """The index of the signal that a block learns from: that of its own output."""
        return block + 1

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """Forward, signals, one backward through all the pieces at once."""
        seen = forward_in_pieces(network, batch, scope)
        return self.update(network, seen, self.signals(network, feedback, seen), scope)

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """One forward pass for all of them."""
        seen = forward_in_pieces(network, batch, Scope(trained=frozenset()))
        return (self.signals(network, feedback, seen) for feedback in feedbacks)

    def update(self, network: StagedNetwork, seen: LocalPass, signals: tuple[Tensor, ...], scope: Scope) -> Credit:
        """The vector-Jacobian products of all stages with their normalised credit."""
        learning = scope.parameters(network)
        inner = {name: p for name, p in learning.items() if name not in seen.readout}
        received = [0] + [self.receives(block) for block in range(network.depth)]
        count = len(seen.error)
        outputs, cotangents = [], []
        for index, stage in enumerate(seen.stages):
            if stage.requires_grad:
                outputs.append(stage)
                cotangents.append(normalise(signals[received[index]], self.normalisation) / count)
        if scope.penalty:
            pieces = [branch for branch in seen.branches if branch.requires_grad]
            outputs += pieces
            cotangents += [2 * scope.penalty / count * piece.detach() for piece in pieces]
        products = torch.autograd.grad(outputs, list(inner.values()), cotangents, allow_unused=True)
        gradients = {name: gradient for name, gradient in zip(inner, products, strict=True) if gradient is not None}
        return Credit(signals, {**gradients, **seen.readout}, seen.loss)
