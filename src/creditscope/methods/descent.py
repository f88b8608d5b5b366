"""The step that the network's optimiser is about to take, as data: learnt feedback can take the same one."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Descent:
    """How the network's weights step.

    kind      class of the optimiser
    settings  all that it takes: lr, weight_decay, and whatever else the kind has
    """

    kind: type[torch.optim.Optimizer]
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, optimiser: torch.optim.Optimizer) -> Descent:
        """That of an optimiser with one group of settings."""
        known = inspect.signature(type(optimiser)).parameters
        groups = [
            {key: group[key] for key in group if key in known and key != "params"} for group in optimiser.param_groups
        ]
        for group in groups[1:]:
            differing = [key for key in group if group[key] != groups[0][key]]
            if differing:
                raise InvalidInput(
                    f"The parameter groups of the optimiser differ in {', '.join(differing)}.\n"
                    "Feedback that learns beside the weights would step otherwise than some of them. Use one group."
                )
        return cls(type(optimiser), groups[0])

    @property
    def learning_rate(self) -> float:
        """η of this step."""
        return float(self.settings["lr"])

    @property
    def weight_decay(self) -> float:
        """λ; 0 where the optimiser has none."""
        return float(self.settings.get("weight_decay", 0.0))

    def optimiser(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """Another optimiser of the same kind and settings."""
        make: Any = self.kind
        made: torch.optim.Optimizer = make(list(parameters), **self.settings)
        return made

    def step(self, optimiser: torch.optim.Optimizer, gradients: Iterable[tuple[nn.Parameter, Tensor | None]]) -> None:
        """One step of an optimiser that `optimiser` made, with the settings of this moment."""
        for group in optimiser.param_groups:
            group.update(self.settings)
        for parameter, gradient in gradients:
            parameter.grad = laid_out(gradient, parameter)
        optimiser.step()


def laid_out(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    """The gradient in its parameter's memory layout.

    Fused AdamW walks both by address: the channels-last gradient of a convolution would meet the wrong weights.
    """
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
