"""Does training runs as one stack pay?  Steps per second of processor time, and operators that start a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from _timing import interleaved, ratio
from torch.utils._python_dispatch import TorchDispatchMode

from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.methods import methods
from creditscope.networks.build import build
from creditscope.training import stacked
from creditscope.training.recipe import Recipe
from creditscope.training.run import Run, begin
from creditscope.training.stack import Stack

RUNS, STEPS, REPEATS = 8, 4, 7
DEPTH, BATCH, FEATURES, CLASSES = 4, 128, 40, 10  # as on MNIST-1D


class Kernels(TorchDispatchMode):
    """Counts the operators that start a kernel: none that returns a view or memory without content."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        space, name = func._schema.name.split("::")
        views = any(value.alias_info is not None and not value.alias_info.is_write for value in func._schema.returns)
        self.count += space == "aten" and not views and not name.startswith("empty")
        return func(*args, **(kwargs or {}))


def noise() -> Dataset:
    """So many samples that an epoch has STEPS batches."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(STEPS * BATCH + 16, FEATURES, generator=generator)
    labels = torch.arange(STEPS * BATCH + 16) % CLASSES
    count = STEPS * BATCH
    return Dataset(
        "noise", Batch(inputs[:count], labels[:count]), Batch(inputs[count:], labels[count:]), CLASSES, (0.0,), (1.0,)
    )


def begun(method: str, width: int, seed: int, data: Dataset) -> Run:
    """A run that is ready for its first step."""
    network = build("resmlp", FEATURES, CLASSES, seed, d=width, depth=DEPTH)
    run = begin(network, methods[method](), data, Recipe(), seed)
    run.open()
    return run


def one_after_another(runs: list[Run]) -> Callable[[], None]:
    """An epoch of steps of every run, without the measurements at its end."""

    def step() -> None:
        for run in runs:
            for _ in run._steps(0):
                pass

    return step


def kernels(step: Callable[[], object]) -> float:
    """Per step."""
    with Kernels() as counted:
        step()
    return counted.count / STEPS


def line(method: str, width: int) -> str:
    """A row of the table."""
    data = noise()
    single = [begun(method, width, seed, data) for seed in range(RUNS)]
    stack = Stack.of([begun(method, width, seed, data) for seed in range(RUNS)])
    ways = {"single": one_after_another(single), "stack": stack.steps}
    taken = interleaved(ways, REPEATS, time.process_time)
    alone, here = kernels(ways["single"]), kernels(stack.steps)
    with patch.object(stacked, "RUN_BY_RUN", frozenset()):
        there = kernels(stack.steps)
    rate = RUNS * STEPS / median(taken["single"])
    return (
        f"{method:<12}{width:>6}{rate:>16.0f}{ratio(taken, 'single', 'stack'):>10.2f}"
        f"{alone:>12.0f}{here:>8.0f}{there:>8.0f}{alone / there:>8.1f}"
    )


def main() -> None:
    """The table."""
    torch.set_num_threads(1)
    print(f"{RUNS} runs, resmlp L = {DEPTH}, batches of {BATCH}, one thread, {REPEATS} repeats in turns")
    print("method       width  steps/s single   stacked   kernels: single   stack   vmap   saved")
    for method, width in (("bp", 16), ("bp", 64), ("bp", 256), ("dfa", 16), ("dfa", 64), ("dfa", 256)):
        print(line(method, width), flush=True)


if __name__ == "__main__":
    main()
