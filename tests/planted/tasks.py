"""The data of the planted networks and the one recipe that trains them: plain backprop on MNIST-1D."""

from __future__ import annotations

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.datasets import datasets

EPOCHS = 12


@cache
def split(classes: int = 10) -> tuple[Batch, Batch]:
    """Training and test images of MNIST-1D, labelled for this many classes."""
    data = datasets["mnist1d"]()
    train, test = (Batch(data.prepare(part.inputs), part.labels) for part in (data.train, data.test))
    return Batch(train.inputs, labels(train, train, classes)), Batch(test.inputs, labels(test, train, classes))


def labels(batch: Batch, train: Batch, classes: int) -> Tensor:
    """The digit; its upper half for two classes; for more than ten, the digit and the rank of the signal's power."""
    if classes == 2:
        return (batch.labels >= 5).long()
    share = classes // 10
    if share <= 1:
        return batch.labels
    power = train.inputs.flatten(1).square().mean(1)
    edges = power.quantile(torch.linspace(0, 1, share + 1)[1:-1])
    return batch.labels * share + torch.bucketize(batch.inputs.flatten(1).square().mean(1), edges)


def cut(batch: Batch, size: int) -> list[Batch]:
    return [Batch(*pair) for pair in zip(batch.inputs.split(size), batch.labels.split(size), strict=True)]


def training_batches(classes: int = 10) -> list[Batch]:
    return cut(split(classes)[0], 500)


def evaluation_batches(classes: int = 10, images: int = 1000) -> list[Batch]:
    inputs, answers = split(classes)[1]
    return cut(Batch(inputs[:images], answers[:images]), 128)


def trained(
    model: nn.Module, learning: list[nn.Parameter], classes: int = 10, epochs: int = EPOCHS, shuffled: bool = False
) -> nn.Module:
    """Backprop over the given parameters, AdamW, one order of the images for all networks."""
    inputs, answers = split(classes)[0]
    optimiser = torch.optim.AdamW(learning, lr=1e-3, weight_decay=0.01)
    generator = torch.Generator().manual_seed(0)
    if shuffled:
        answers = answers[torch.randperm(len(answers), generator=generator)]
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(answers), generator=generator).split(128)[:-1]:
            optimiser.zero_grad()
            F.cross_entropy(model(inputs[rows]), answers[rows]).backward()
            optimiser.step()
    return model.eval()


@torch.no_grad()
def accuracy(model: nn.Module, classes: int = 10) -> float:
    test = split(classes)[1]
    return float((model(test.inputs).argmax(1) == test.labels).double().mean())
