"""Local rules: every stage is differentiated alone, with credit as its cotangent."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from creditscope.arguments import check_choice
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.methods.loss import full_precision, judged, widened
from creditscope.methods.loss import output_error as output_error
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Scope
from creditscope.networks.staged import Asked, Pieces, StagedNetwork

Normalisation = Literal["sample", "batch", "none"]
Index = Literal["output", "input"]


@dataclass(frozen=True, slots=True)
class LocalPass:
    """One forward pass in pieces, and the exact gradients of the read-out.

    inputs    what the network was given
    pieces    the pass, ready to be differentiated stage by stage
    hiddens   h_0..h_L, detached
    error     e = ∂ℓ/∂logits of each sample's own loss; softmax(logits) - onehot(labels) for cross-entropy
    deepest   g_L, the exact gradient of each sample's own loss at h_L, through the read-out alone
    readout   the read-out's exact gradients of the mean loss
    count     how many losses the mean is over: the samples, or their positions
    """

    inputs: Any
    pieces: Pieces
    hiddens: tuple[Tensor, ...]
    error: Tensor
    deepest: Tensor
    readout: dict[str, Tensor]
    loss: Tensor
    labels: Tensor
    count: int

    @property
    def stages(self) -> Sequence[Tensor]:
        """h_0..h_L in the graph of the pass."""
        return self.pieces.stages

    @property
    def branches(self) -> Sequence[Tensor]:
        """f_0..f_{L-1} in the graph of the pass."""
        return self.pieces.branches


def forward_in_pieces(network: StagedNetwork, batch: Batch, scope: Scope) -> LocalPass:
    """One forward pass; every stage that learns keeps the graph from its own parameters to its own output."""
    with torch.enable_grad():
        return local_pass(network, batch, network.in_pieces(batch.inputs, scope.learns))


def local_pass(network: StagedNetwork, batch: Batch, pieces: Pieces) -> LocalPass:
    """A forward pass in pieces, judged by the loss and taken back through the read-out."""
    with torch.enable_grad(), full_precision(pieces.logits.device):
        found = judged(network.loss_fn, pieces.logits, batch.labels)
        deepest, readout = pieces.through_readout(found.error.to(pieces.logits.dtype))
    return LocalPass(
        inputs=batch.inputs,
        pieces=pieces,
        hiddens=tuple(stage.detach() for stage in pieces.stages),
        error=found.error[:, None] if found.error.dim() == 1 else found.error,
        deepest=widened(deepest),
        readout={name: gradient / found.count for name, gradient in readout.items()},
        loss=found.loss,
        labels=batch.labels,
        count=found.count,
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
    outside = network.readout_parameters()
    with torch.enable_grad():
        leaf = state.detach().requires_grad_()
        logits = network.readout(leaf)
        found = judged(network.loss_fn, logits, labels)
        slope, *gradients = torch.autograd.grad(logits, [leaf, *outside.values()], found.error, allow_unused=True)
    named = {name: g / found.count for name, g in zip(outside, gradients, strict=True) if g is not None}
    return ReadOut(logits.detach(), found.error, slope, named)


def normalise(credit: Tensor, how: Normalisation) -> Tensor:
    """â = a/rms(a): over all features of each sample, over the whole batch, or not at all; 0 where the rms is 0."""
    if how == "none":
        return credit
    if how == "batch":
        rms = credit.square().mean().sqrt()
    else:
        rms = credit.flatten(1).square().mean(1).sqrt().view(-1, *[1] * (credit.dim() - 1))
    return (credit / rms).masked_fill_(~(rms > 0), 0)


def check_normalisation(how: str) -> None:
    """Refuse a normalisation that does not exist."""
    check_choice("normalisation", how, get_args(Normalisation), "It decides whether the stream explodes.")


def check_index(index: str) -> None:
    """Refuse a state whose credit no block could learn from."""
    check_choice("index", index, get_args(Index), "It decides which credit a block receives, and so Γ at layer 1.")


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
    index: Index = "output"  # the state whose credit trains a block

    @abstractmethod
    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """a_0..a_L, raw."""

    def receives(self, block: int) -> int:
        """The index of the signal that a block learns from: that of its output, or of its input."""
        return block + 1 if self.index == "output" else block

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """Forward, signals, one backward through all the pieces at once."""
        seen = forward_in_pieces(network, batch, scope)
        with full_precision(seen.error.device):
            signals = self.signals(network, feedback, seen)
        return self.update(network, seen, signals, scope)

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """One forward pass for all of them."""
        seen = forward_in_pieces(network, batch, Scope(trained=frozenset()))
        return (self.signals(network, feedback, seen) for feedback in feedbacks)

    def update(
        self,
        network: StagedNetwork,
        seen: LocalPass,
        signals: tuple[Tensor, ...],
        scope: Scope,
        cotangents: Sequence[Tensor] | None = None,
    ) -> Credit:
        """The vector-Jacobian products of all stages with their normalised credit.

        cotangents  â/count at every state, where the rule has it in a cheaper way than from its signals
        """
        learning = scope.parameters(network)
        inner = {name: p for name, p in learning.items() if name not in seen.readout}
        learns = [index for index, stage in enumerate(seen.stages) if stage.requires_grad]
        received = [0 if index == 0 else self.receives(index - 1) for index in learns]
        with full_precision(seen.error.device):
            if cotangents is None:
                given = self.cotangents([signals[index] for index in received], seen.count)
            else:
                given = [cotangents[index] for index in received]
            asked = [
                Asked(index, seen.stages[index], cotangent.to(seen.stages[index].dtype))
                for index, cotangent in zip(learns, given, strict=True)
            ]
            if scope.penalty:
                asked += [
                    Asked(index + 1, branch, 2 * scope.penalty / seen.count * branch.detach())
                    for index, branch in enumerate(seen.branches)
                    if branch.requires_grad
                ]
            gradients = seen.pieces.products(asked, inner)
        return Credit(signals, {**gradients, **seen.readout}, seen.loss)

    def cotangents(self, signals: Sequence[Tensor], count: int) -> Sequence[Tensor]:
        """â/count of every signal; flat ones of one shape together, since the operations are small."""
        if self.normalisation == "sample" and len({s.shape for s in signals}) == 1 and signals[0].dim() == 2:
            rows = normalise(torch.cat(list(signals)), "sample").div_(count)
            return rows.chunk(len(signals))
        scaled = [normalise(signal, self.normalisation) for signal in signals]
        return [s / count if s is own else s.div_(count) for s, own in zip(scaled, signals, strict=True)]
