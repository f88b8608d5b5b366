"""The recipe of a training run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from creditscope.errors import InvalidInput
from creditscope.methods.loss import LOSSES
from creditscope.training.fused import FusedAdamW

OPTIMISERS: Mapping[str, Any] = {"adamw": FusedAdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
SCHEDULES = ("cosine", "constant")
MOST_EPOCHS, MOST_IMAGES = 1_000_000, 10**9  # more is a misprint: at a second an epoch, 12 days


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained: by default AdamW under a cosine schedule that steps once per epoch and ends at 0.

    optimiser   adamw, adam (its weight decay is added to the gradient) or sgd (no momentum)
    schedule    cosine or constant
    loss        cross_entropy, squared_error (½ ‖logits - onehot‖²) or sigmoid (cross-entropy of every class alone)
    """

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    augment: bool = True  # crop and mirror as the dataset says
    random_labels: bool = False  # a causal control: every training label drawn anew, once
    optimiser: str = "adamw"
    schedule: str = "cosine"
    loss: str = "cross_entropy"

    def __post_init__(self) -> None:
        for name, least, most in (("epochs", 0, MOST_EPOCHS), ("batch_size", 1, MOST_IMAGES)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                bound = f"of at most {most:,}" if isinstance(value, int) and value > most else f"of at least {least}"
                raise InvalidInput(
                    f"{name} must be a whole number {bound}, got {value!r}.\n"
                    "No run could be trained with it. Correct the recipe."
                )
        if not 0 < self.learning_rate < math.inf or not 0 <= self.weight_decay < math.inf:
            raise InvalidInput(
                f"learning_rate must be > 0 and weight_decay ≥ 0, both finite, got {self.learning_rate:g} and "
                f"{self.weight_decay:g}.\nThe weights would not descend. Correct the recipe."
            )
        for name, known in (("optimiser", OPTIMISERS), ("schedule", SCHEDULES), ("loss", LOSSES)):
            if getattr(self, name) not in known:
                raise InvalidInput(
                    f"{name} is {getattr(self, name)!r}.\n"
                    f"No run could be trained with it. Choose one of {', '.join(known)}."
                )

    def rate(self, epoch: int) -> float:
        """lr/2 · (1 + cos(π epoch/epochs)), or lr where the schedule is constant."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate / 2 * (1 + math.cos(math.pi * epoch / self.epochs))

    def descent(self, parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimiser of these parameters, at the rate of the first epoch."""
        make: Any = OPTIMISERS[self.optimiser]
        made: torch.optim.Optimizer = make(
            parameters, lr=self.learning_rate, weight_decay=self.weight_decay, fused=True
        )
        return made


REVISION = 1  # of the recipe: raise it when a change here changes numbers
