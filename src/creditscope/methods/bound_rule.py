"""BoundRule: a rule with the network that it trained and the feedback of its run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import Credit, CreditSource
from creditscope.errors import InvalidInput
from creditscope.methods.rule import CreditRule, Feedback, Scope
from creditscope.networks.staged import StagedNetwork
from creditscope.verdict import Missing


@dataclass(frozen=True, slots=True)
class BoundRule(CreditSource):
    """A rule with the feedback of its run: the credit that trained the network, on demand."""

    rule: CreditRule
    network: StagedNetwork
    feedback: Feedback
    example: Batch

    @property
    def model(self) -> nn.Module:  # type: ignore[override]
        """The network that the rule is bound to."""
        return self.network.own

    @property
    def local(self) -> bool:  # type: ignore[override]
        """Declared by the rule."""
        return not self.rule.innermost.uses_weights_above

    @property
    def at_states(self) -> bool:  # type: ignore[override]
        """Declared by the rule."""
        return self.rule.innermost.at_states

    @property
    def reference(self) -> str:  # type: ignore[override]
        """Declared by the rule."""
        facts = self.rule.innermost.facts
        return "" if facts is None else facts.reference

    @property
    def exact_layers(self) -> frozenset[int]:  # type: ignore[override]
        """Declared by the rule."""
        return self.rule.innermost.exact_layers(self.network.depth)

    def signals(self, batch: Batch) -> tuple[Tensor, ...]:
        """a_0..a_L of the rule, without the update that it would make of them."""
        (signals,) = self.signals_under(batch, [self])
        return signals

    def updates(self, batch: Batch) -> dict[str, Tensor]:
        """The gradients of the rule with its wrappers, as training hands them to the optimiser."""
        return self.rule.credit(self.network, self.feedback, batch, self.rule.scope(self.network)).gradients

    def own_reference(self, batch: Batch) -> Credit | Missing | None:
        """The rule's own reference, for the blocks that learn."""
        scope = self.rule.scope(self.network)
        return self.rule.innermost.own_reference(self.network, self.feedback, batch, Scope(scope.trained))

    def redrawn(self, generator: torch.Generator) -> BoundRule | None:
        """The rule with fresh feedback; None if it has none, learns it, or declares that it is no null.

        Learnt feedback is the result of a run: a fresh draw of it is feedback before its first step, another method.
        """
        if not self.feedback.tensors or self.feedback.networks is not None or not self.rule.innermost.redraws:
            return None
        fresh = self.rule.innermost.redrawn(self.network, self.feedback, self.example, generator)
        device = next(iter(self.feedback.tensors.values())).device
        return BoundRule(self.rule, self.network, fresh.to(device), self.example)

    def signals_under(self, batch: Batch, sources: Sequence[CreditSource]) -> Iterator[tuple[Tensor, ...]]:
        """The signals under several feedbacks, as cheap as the rule can make them."""
        feedbacks = []
        for source in sources:
            if not isinstance(source, BoundRule):
                raise InvalidInput(
                    f"The source {type(source).__name__} is not a rule bound to a network.\n"
                    "It has no feedback, and its signals would be missing. Pass this rule or what `redrawn` returns."
                )
            feedbacks.append(source.feedback)
        return self.rule.innermost.signals_under(self.network, feedbacks, batch)

    def angles(self) -> dict[str, float]:
        """The angles of learnt feedback."""
        return self.rule.innermost.angles(self.network, self.feedback)

    def noise_cosine(self, features: int) -> float | None:
        """Declared by the rule."""
        return self.rule.innermost.noise_cosine(features)

    def answers(self, batch: Batch) -> Tensor | None:
        """The rule's own predictions, which never see the labels."""
        return self.rule.innermost.answers(self.network, self.feedback, batch.inputs)

    def residual(self, batch: Batch, generator: torch.Generator) -> Tensor | None:
        """The bridge residual of a rule that learns its credit."""
        return self.rule.innermost.residual(self.network, self.feedback, batch, generator)
