"""Variants of any method: with a penalty, with frozen blocks, without blocks, or with only the last blocks learning."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.control import Control
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods.descent import Descent
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Moment, Scope, example_states
from creditscope.networks.staged import StagedNetwork


@dataclass(frozen=True)
class Wrapper(CreditRule):
    """A rule inside another: same feedback, same credit, another scope."""

    inner: CreditRule

    def within(self, network: StagedNetwork, scope: Scope) -> Scope:
        """The scope in which the inner rule works."""
        return scope

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """The inner rule's."""
        return self.inner.feedback(network, example, generator)

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """The inner rule's, in the narrower scope."""
        return self.inner.credit(network, feedback, batch, self.within(network, scope))

    def equip(self, feedback: Feedback, descent: Descent) -> Feedback:
        """The inner rule's."""
        return self.inner.equip(feedback, descent)

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The inner rule's, in the narrower scope."""
        return self.inner.learn(network, feedback, batch, moment, self.within(network, scope))

    def follow(self, feedback: Feedback, descent: Descent, gradients: Mapping[str, Tensor]) -> None:
        """The inner rule's."""
        self.inner.follow(feedback, descent, gradients)

    def prepare(self, network: StagedNetwork, example: Batch) -> StagedNetwork:
        """The inner rule's network."""
        return self.inner.prepare(network, example)

    def scope(self, network: StagedNetwork) -> Scope:
        """The inner rule's, narrowed."""
        return self.within(network, self.inner.scope(network))

    def objection(self, auxiliary: Mapping[str, float]) -> str | None:
        """The inner rule's."""
        return self.inner.objection(auxiliary)

    @property
    def innermost(self) -> CreditRule:
        """The rule without its wrappers."""
        return self.inner.innermost


@dataclass(frozen=True)
class Penalty(Wrapper):
    """Adds λ‖f_l(h_l)‖², mean over the batch and sum over features, to every block's local loss; for BP to the loss."""

    strength: float = 1e-2

    def __post_init__(self) -> None:
        if not (isinstance(self.strength, int | float) and 0 <= self.strength <= sys.float_info.max):
            raise InvalidInput(
                f"penalty must be a finite number of at least 0, got {self.strength!r}.\n"
                "A negative penalty would reward the growth that it should bound. Common values: 1e-4 to 1e-1."
            )

    def within(self, network: StagedNetwork, scope: Scope) -> Scope:
        """The scope with the penalty."""
        return replace(scope, penalty=self.strength)


@dataclass(frozen=True)
class Frozen(Wrapper):
    """The blocks stay at their random initialisation; embedding and read-out learn: the control of D3."""

    def within(self, network: StagedNetwork, scope: Scope) -> Scope:
        """No block learns."""
        return replace(scope, trained=frozenset())


@dataclass(frozen=True)
class Ladder(Wrapper):
    """Only the last `blocks` blocks learn: rung k of the ladder from frozen (0) to fully trained (L)."""

    blocks: int = 0

    def within(self, network: StagedNetwork, scope: Scope) -> Scope:
        """The last k blocks."""
        Control("ladder", self.blocks).check(network.depth)
        last = range(network.depth - self.blocks, network.depth)
        return replace(scope, trained=frozenset(index for index in last if scope.learns(index)))


@dataclass(frozen=True)
class Shallow(Wrapper):
    """The blocks are removed: embedding and read-out alone."""

    def prepare(self, network: StagedNetwork, example: Batch) -> StagedNetwork:
        """The network without blocks, where the read-out can take h_0; a model that is not ours keeps its blocks."""
        network = self.inner.prepare(network, example)
        if not isinstance(getattr(network, "blocks", None), nn.ModuleList):
            raise InvalidInput(
                f"The blocks of {network.title} cannot be removed: they were found in its forward pass.\n"
                "What the model would be without them is not known. Use the frozen control, or ladder-0."
            )
        blocks, network.blocks = network.blocks, nn.ModuleList()
        try:
            example_states(network, example)
        except RuntimeError as error:
            network.blocks = blocks
            raise InvalidInput(
                f"{network.title} cannot run without its blocks: its read-out cannot take h_0 ({error}).\n"
                "The shallow control exists only where every state has the same shape. Use the frozen control."
            ) from error
        return network


def wrapped(rule: CreditRule, *, penalty: float = 0.0, control: str = "none") -> CreditRule:
    """A rule with its penalty and its control."""
    if not (isinstance(penalty, int | float) and penalty == 0):
        rule = Penalty(rule, penalty)
    wanted = Control.parse(control)
    if wanted.rung is not None:
        return Ladder(rule, wanted.rung)
    wrappers: dict[str, type[Wrapper]] = {"frozen": Frozen, "shallow": Shallow}
    return wrappers[wanted.kind](rule) if wanted.kind in wrappers else rule
