"""Credit: what a method says about one batch, and where credit comes from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import InvalidInput


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

    def signals_under(self, batch: Batch, sources: Sequence[CreditSource]) -> Iterator[tuple[Tensor, ...]]:
        """The signals of several redrawn sources for one batch; overridden where they can share a forward pass."""
        return (source.signals(batch) for source in sources)

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
