"""MNIST-1D: one-dimensional digits in ten classes, tiny and hard for a linear model; part of the package."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch

from creditscope.batch import Batch
from creditscope.datasets import dataset
from creditscope.datasets.tensors import Dataset


@dataset(
    "mnist1d", summary="4,000 training and 1,000 test signals of length 40 in ten classes; comes with the package."
)
def mnist1d(folder: Path | None = None) -> Dataset:
    """4,000 training and 1,000 test signals of length 40 in ten classes; the cache folder is not used.

    Greydanus and Kobak (ICML 2024), default arguments; standardised by the training set's scalar mean and std.
    """
    with as_file(files(__package__) / "data" / "mnist1d.npz") as path, np.load(path, allow_pickle=False) as stored:
        arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
    train = Batch(arrays["train_inputs"], arrays["train_labels"].long())
    test = Batch(arrays["test_inputs"], arrays["test_labels"].long())
    exact = train.inputs.double()
    mean, std = exact.mean().item(), exact.std(correction=0).item()
    return Dataset("mnist1d", train, test, classes=10, mean=(mean,), std=(std,))
