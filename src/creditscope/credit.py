"""Credit: the signals of a method for one batch, and the sources that produce them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.verdict import Missing, Reason

Local = bool | Literal["forward"]  # "forward": uses the weights above only by running them forward


@dataclass(frozen=True, slots=True)
class Credit:
    """The credit of a method for one batch; training and auditing use the same record.

    signals    a_l, one per state h_0..h_L and of its shape, before normalisation
    gradients  what the optimiser gets, by parameter name
    loss       mean cross-entropy of the batch
    auxiliary  named losses of networks that learn alongside
    """

    signals: tuple[Tensor, ...]
    gradients: dict[str, Tensor]
    loss: Tensor
    auxiliary: dict[str, Tensor] = field(default_factory=dict)


class CreditSource(ABC):
    """Credit for a batch on demand, from a rule with its saved feedback or from a user's own function.

    local         declared not to depend on the weights above; "forward" if it probes them by forward passes
    at_states     whether there is credit at the states; without it only the updates can be compared
    reference     what the method descends where that is not the loss, for example "the layer's own loss"; empty: BP
    exact_layers  layers whose credit is the gradient by construction
    missing       why the credit is not available, for example feedback that was not saved; None if it is
    model         the network that the credit is computed on; None if it is not known
    """

    local: Local = True
    at_states: bool = True
    reference: str = ""
    exact_layers: frozenset[int] = frozenset()
    missing: Missing | None = None
    model: nn.Module | None = None

    @abstractmethod
    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """a_0..a_L for a batch, each of the shape of its state."""

    def updates(self, batch: Batch) -> Mapping[str, Tensor] | None:
        """What the optimiser gets for a batch, by parameter name; None if the source knows signals only."""
        return None

    def own_reference(self, batch: Batch) -> Credit | Missing | None:
        """What the method itself descends, as credit and gradients; None if that is the loss, Missing if not computed.

        Without signals only updates are compared with it, without gradients only credit at the states.
        """
        return None

    def redrawn(self, generator: torch.Generator) -> CreditSource | None:
        """The same source with fresh feedback from its own distribution; None if it has no feedback."""
        return None

    def signals_under(self, batch: Batch, sources: Sequence[CreditSource]) -> Iterator[tuple[Tensor, ...]]:
        """The signals of several redrawn sources for one batch; overridden where they can share a forward pass."""
        return (source.signals(batch) for source in sources)

    def residual(self, batch: Batch, generator: torch.Generator) -> Tensor | None:
        """How far a learned stand-in is from its target, one number for the batch; None if the rule has none."""
        return None

    def angles(self) -> dict[str, float]:
        """The angle between learnt feedback and the weight that it stands for, in degrees, by name; empty if none."""
        return {}

    def noise_cosine(self, features: int) -> float | None:
        """The mean cosine to the gradient that a correct random estimate has at a flat state; None if not random."""
        return None

    def answers(self, batch: Batch) -> Tensor | None:
        """Logits of a method with its own inference phase; None if the network itself predicts."""
        return None


@dataclass(frozen=True)
class NoCredit(CreditSource):
    """A rule whose credit is lost, for example because its feedback was not saved: reported, never measured."""

    why: str

    @property
    def missing(self) -> Missing:  # type: ignore[override]
        """Not available, and the reason."""
        return Missing(Reason.NOT_AVAILABLE, f"not available: {self.why}")

    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """Refused: any signal would differ from the one that trained the network."""
        raise InvalidInput(
            f"The credit is not available: {self.why}.\n"
            "Any other signals would be compared as if they had trained the network. Train it again."
        )
