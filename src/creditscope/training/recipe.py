"""The recipe: how long, how fast and on what a network is trained, and the one generator of a run."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass

import torch

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
                    f"{name} = {value!r} says nothing about how long to train.\nChoose a whole number from {least} on."
                )
        if not 0 < self.learning_rate < math.inf or not 0 <= self.weight_decay < math.inf:
            raise InvalidInput(
                f"learning_rate = {self.learning_rate:g} with weight_decay = {self.weight_decay:g} does not descend.\n"
                "Choose a positive learning rate and a weight decay from 0 on, both finite."
            )

    def rate(self, epoch: int) -> float:
        """lr/2 · (1 + cos(π epoch/epochs))."""
        return self.learning_rate / 2 * (1 + math.cos(math.pi * epoch / self.epochs))


REVISION = 1  # of the recipe: raise it when a change here changes numbers


def run_generator(seed: int) -> torch.Generator:
    """The one generator of a run: feedback, random labels, order of the samples, augmentation, auxiliary noise."""
    digest = hashlib.sha256(f"run {seed}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:4], "big"))
