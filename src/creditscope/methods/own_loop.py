"""What `fit` does around a rule, for a loop of one's own: epochs, the rule's objection, and steps taken together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods.descent import Descent
from creditscope.methods.rule import CreditRule, Diverged, Feedback
from creditscope.networks.staged import StagedNetwork

LENGTH = 100  # calls of `backward` in an epoch, where the loop does not say when one begins


@dataclass(slots=True)
class Epoch:
    """The calls since an epoch began, and the sums of their auxiliary losses."""

    calls: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)

    def opens(self, said: bool | None) -> bool:
        """Whether an epoch begins with the next call: as the loop says, else every `LENGTH` calls."""
        return self.calls % LENGTH == 0 if said is None else said

    def close(self, rule: CreditRule) -> None:
        """Judge the calls so far as `fit` judges an epoch, and begin another one."""
        means = {name: total.item() / self.calls for name, total in self.sums.items()}
        objection = rule.objection(means)
        if objection:
            raise Diverged(
                f"{rule.innermost.name} objects after {self.calls} calls of backward: {objection}.\n"
                "The network would go on learning from it. Stop here, and train with other options or a smaller "
                "learning rate."
            )
        self.calls, self.sums = 0, {}

    def note(self, credit: Credit) -> None:
        """Count a call."""
        self.calls += 1
        for name, value in credit.auxiliary.items():
            self.sums[name] = self.sums[name] + value.detach() if name in self.sums else value.detach().clone()


def step_together(
    optimizer: torch.optim.Optimizer, rule: CreditRule, network: StagedNetwork, feedback: Feedback
) -> None:
    """Let the feedback follow every `optimizer.step()`, by the gradients which that step is about to use.

    However often they were accumulated, and however they were clipped: a step that is skipped is skipped for both.
    """

    def follow(stepping: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if kwargs.get("closure", args[1] if len(args) > 1 else None) is not None:
            raise InvalidInput(
                f"optimizer.step was called with a closure, and the feedback of {rule.innermost.name!r} takes the same "
                "steps as the weights.\nThe gradients of the step are not known before the closure runs. Call the "
                "closure first, and then optimizer.step()."
            )
        stepped = {id(parameter) for group in stepping.param_groups for parameter in group["params"]}
        named = {name: p.grad for name, p in network.named_parameters() if id(p) in stepped and p.grad is not None}
        rule.follow(feedback, Descent.of(stepping), named)

    optimizer.register_step_pre_hook(follow)
