"""The recipe of a training run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from creditscope.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a network is trained: AdamW under a cosine schedule that steps once per epoch and ends at 0."""

    epochs: int = 100
    batch_size: int = 128
    learning_rate: float = 1e-3
    weight_decay: float = 0.01
    augment: bool = True  # crop and mirror as the dataset says
    random_labels: bool = False  # a causal control: every training label drawn anew, once

    def __post_init__(self) -> None:
        for name, least in (("epochs", 0), ("batch_size", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InvalidInput(
                    f"{name} must be a whole number of at least {least}, got {value!r}.\n"
                    "No run could be trained with it. Correct the recipe."
                )
        if not 0 < self.learning_rate < math.inf or not 0 <= self.weight_decay < math.inf:
            raise InvalidInput(
                f"learning_rate must be > 0 and weight_decay ≥ 0, both finite, got {self.learning_rate:g} and "
                f"{self.weight_decay:g}.\nThe weights would not descend. Correct the recipe."
            )

    def rate(self, epoch: int) -> float:
        """lr/2 · (1 + cos(π epoch/epochs))."""
        return self.learning_rate / 2 * (1 + math.cos(math.pi * epoch / self.epochs))


REVISION = 1  # of the recipe: raise it when a change here changes numbers
