"""One pass over one batch, written down: every state and every sample's own gradient at it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.adapters import Shifts, Stream
from creditscope.batch import Batch
from creditscope.errors import InvalidInput, ModelMismatch

LossFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Trace:
    """What one forward and one backward pass over a batch show.

    hiddens    h_0..h_L as the model holds them, detached
    gradients  g_l = ∂ℓ/∂h_l, of each sample's own loss (the sum over the batch, never the mean)
    error      ∂ℓ/∂logits; for cross-entropy e = softmax(logits) - onehot(labels)
    losses     one per sample (or position)
    """

    hiddens: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    error: Tensor
    logits: Tensor
    labels: Tensor
    losses: Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Each sample's own cross-entropy; half-precision logits are compared in float32."""
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    return F.cross_entropy(logits, labels, reduction="none")


def capture(stream: Stream, batch: Batch, loss_fn: LossFunction = cross_entropy) -> Trace:
    """One forward and one backward pass: states, gradients, logits."""
    with torch.enable_grad():
        seen = stream.run(batch.inputs)
        losses = per_sample(loss_fn, seen.logits, batch.labels)
        named = {f"h_{layer}": anchor for layer, anchor in enumerate(seen.anchors)}
        *gradients, error = _derivatives(losses, {**named, "logits": seen.logits}, type(stream.model).__name__)
        one_each = seen.logits.dim() == 1  # a regression with one number per sample
    return Trace(
        hiddens=tuple(state.detach() for state in seen.hiddens),
        gradients=tuple(stream.oriented(gradient) for gradient in gradients),
        error=error[:, None] if one_each else error,
        logits=seen.logits.detach()[:, None] if one_each else seen.logits.detach(),
        labels=batch.labels,
        losses=losses.detach(),
    )


def _derivatives(losses: Tensor, by: dict[str, Tensor], model: str) -> tuple[Tensor, ...]:
    """∂Σℓ/∂ each of the named tensors; one that the losses do not depend on is refused."""
    live = [tensor for tensor in by.values() if tensor.requires_grad and losses.requires_grad]
    found = torch.autograd.grad(losses, live, torch.ones_like(losses), allow_unused=True) if live else ()
    known = tuple(gradient for gradient in found if gradient is not None)
    if len(known) < len(by):
        used = {id(tensor) for tensor, gradient in zip(live, found, strict=True) if gradient is not None}
        name = next(name for name, tensor in by.items() if id(tensor) not in used)
        raise ModelMismatch(
            f"The loss of {model} does not depend on its {name} as returned.\n"
            "The gradient would be zero by accident. Return the states and logits that the network itself uses, not "
            "detached copies, or pass blocks= the path of its block list."
        )
    return known


def losses_at(stream: Stream, batch: Batch, shifts: Shifts, loss_fn: LossFunction = cross_entropy) -> Tensor:
    """Each sample's loss after its states were moved by `shifts`; no gradient."""
    with torch.no_grad():
        return per_sample(loss_fn, stream.run(batch.inputs, shifts).logits, batch.labels)


def per_sample(loss_fn: LossFunction, logits: Tensor, labels: Tensor) -> Tensor:
    """The losses, once it is certain that there is one for each sample."""
    losses = loss_fn(logits, labels)
    if losses.dim() == 0 or losses.shape[0] != logits.shape[0]:
        raise InvalidInput(
            f"loss_fn returned shape {tuple(losses.shape)} for {logits.shape[0]} samples.\n"
            "Gradients of a mean carry 1/N and make every limit depend on the batch size. "
            'Return one loss per sample (reduction="none").'
        )
    return losses


@dataclass(frozen=True, slots=True)
class Credit:
    """What a method says about one batch: the same record for training and for auditing.

    signals    a_l, one per state h_0..h_L and of its shape, before normalisation
    gradients  per parameter name: what the optimiser gets
    loss       mean cross-entropy of the batch
    exact      layers whose credit is the gradient by construction
    auxiliary  named losses of networks that learn alongside
    """

    signals: tuple[Tensor, ...]
    gradients: dict[str, Tensor]
    loss: Tensor
    exact: frozenset[int] = frozenset()
    auxiliary: dict[str, Tensor] = field(default_factory=dict)


class CreditSource(ABC):
    """Credit for a batch on demand, from a rule with its saved feedback or from a user's own function.

    local    declared to carry nothing through the weights above
    exact    layers whose credit is the gradient by construction
    missing  why there is no credit to be had, for example feedback that was not saved; empty if there is
    """

    local: bool = True
    exact: frozenset[int] = frozenset()
    missing: str = ""

    @abstractmethod
    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """a_0..a_L for a batch, each of the shape of its state."""

    def redrawn(self, generator: torch.Generator) -> CreditSource | None:
        """The same source with fresh feedback from its own distribution; None if it has no feedback."""
        return None

    def redraws(self, batch: Batch, fresh: Sequence[CreditSource]) -> Iterator[tuple[Tensor, ...]]:
        """The signals of several redrawn sources for one batch; overridden where they can share a forward pass."""
        return (source.signals(batch) for source in fresh)

    def residual(self, batch: Batch, generator: torch.Generator) -> Tensor | None:
        """How far a learned stand-in is from what it stands for, one number for the batch; None if there is none."""
        return None

    def answers(self, batch: Batch) -> Tensor | None:
        """Logits of a method with an inference phase of its own; None if the network itself answers."""
        return None


@dataclass(frozen=True)
class NoCredit(CreditSource):
    """A rule whose credit cannot be had again, and the reason: reported as not available, never measured."""

    missing: str

    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """Refused: any signal would be another than the one that trained the network."""
        raise InvalidInput(
            f"There is no credit: {self.missing}.\n"
            "Signals made up in its place would be compared as if they had trained the network. Train it again."
        )
