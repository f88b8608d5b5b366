"""A generated task: a random teacher network labels Gaussian inputs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.datasets import dataset
from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput, OutOfResources
from creditscope.machine import memory


@dataset("teacher", summary="Gaussian inputs labelled by a random teacher network; any size, generated from a seed.")
def teacher(
    folder: Path | None = None,
    *,
    samples: tuple[int, int] = (4000, 1000),
    inputs: int = 128,
    classes: int = 10,
    widths: tuple[int, ...] = (128, 128),
    alpha: float = 1.0,
    seed: int = 0,
) -> Dataset:
    """x ~ N(0, I), label = argmax of the teacher's logits; the same seed gives the same data.

        z ← W z, then z ← (1-α) z + α·tanh z, for every width;  logits = W z - their mean over the training set

    W ~ N(0, 1/fan-in).  Without the centring some classes would hardly occur.  `samples` counts training and test
    samples; α = 0 is a linear teacher.  The logits are computed in float64, the inputs are float32.
    """
    _check(samples, inputs, classes, widths)
    _check_size(sum(samples) * inputs * 12 + sum(a * b * 8 for a, b in pairwise((inputs, *widths, classes))), seed)
    generator = torch.Generator().manual_seed(seed)
    sizes = (inputs, *widths, classes)
    weights = [_weights(*pair, generator) for pair in pairwise(sizes)]
    drawn = torch.randn(sum(samples), inputs, generator=generator)
    logits = _logits(drawn.double(), weights, alpha)
    labels = (logits - logits[: samples[0]].mean(0)).argmax(1)
    train = Batch(drawn[: samples[0]], labels[: samples[0]])
    test = Batch(drawn[samples[0] :], labels[samples[0] :])
    return Dataset("teacher", train, test, classes=classes, mean=(0.0,), std=(1.0,))


def _weights(fan_in: int, fan_out: int, generator: torch.Generator) -> Tensor:
    drawn = torch.randn(fan_in, fan_out, generator=generator, dtype=torch.float64)
    return drawn.mul_(fan_in**-0.5)


def _logits(states: Tensor, weights: list[Tensor], alpha: float) -> Tensor:
    for matrix in weights[:-1]:
        sums = states @ matrix
        states = torch.lerp(sums, sums.tanh(), alpha)
    logits: Tensor = states @ weights[-1]
    return logits


def _check(samples: tuple[int, int], inputs: int, classes: int, widths: tuple[int, ...]) -> None:
    """Refuse counts that cannot make a dataset."""
    if len(samples) != 2 or min(*samples, inputs, *widths) < 1 or classes < 2:
        raise InvalidInput(
            f"A teacher task cannot have {samples=}, {inputs=}, {classes=}, {widths=}.\n"
            "There would be nothing to learn or nothing to test on. "
            "Give two numbers of samples, all counts at least 1, and at least 2 classes."
        )


def _check_size(needed: int, seed: int) -> None:
    """Refuse data that do not fit into memory, and a seed that no generator takes."""
    if needed > memory():
        raise OutOfResources(
            f"This teacher task would need {float(needed):.1e} bytes, this machine has {memory():.1e}.\n"
            "Nothing was generated. Give fewer samples, inputs or widths."
        )
    if not 0 <= seed < 2**63:
        raise InvalidInput(
            f"seed must be a whole number of at least 0 and below 2^63, got {seed}.\n"
            "The same data could not be drawn again. Give a smaller one."
        )
