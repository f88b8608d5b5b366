"""The published protocol, slowly: the formulas as loops over layers, samples and features, faults included.

A model has `embed` or `patch_embed`, residual `blocks`, and (`out_ln`, `out_head`) or (`norm`, `head`). Nothing here
comes from creditscope. Comparisons are written as published: a NaN is past no threshold, a baseline that is missing
raises no flag, and gradients of a mean loss are held against a floor that knows no N.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import Any

import torch
from torch import Tensor

Batches = Sequence[tuple[Tensor, Tensor]]


def embedding(model: Any, x: Tensor) -> Tensor:
    if hasattr(model, "patch_embed"):
        return model.patch_embed(x)
    return model.embed(x.flatten(1))


def readout(model: Any, h: Tensor) -> Tensor:
    norm, head = (model.out_ln, model.out_head) if hasattr(model, "out_head") else (model.norm, model.head)
    return head(norm(h)[:, 0] if h.dim() == 3 else norm(h))


def states(model: Any, x: Tensor) -> list[Tensor]:
    hiddens = [embedding(model, x)]
    for block in model.blocks:
        hiddens.append(hiddens[-1] + block(hiddens[-1]))
    return hiddens


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """(1/N) Σ_i (log Σ_c exp z_ic - z_iy): the cross-entropy of the batch."""
    total = torch.zeros((), dtype=logits.dtype)
    for z, y in zip(logits, labels.tolist(), strict=True):
        top = z.detach().max()
        total = total + top + (z - top).exp().sum().log() - z[y]
    return total / len(labels)


def rows(state: Tensor) -> list[list[float]]:
    """One vector per sample; of tokens the first."""
    return (state[:, 0] if state.dim() == 3 else state).tolist()


def length(vector: Sequence[float]) -> float:
    return math.sqrt(sum(value * value for value in vector))


def median(values: Sequence[float]) -> float:
    """The lower middle; NaN if anything is NaN."""
    if any(math.isnan(value) for value in values):
        return math.nan
    return sorted(values)[(len(values) - 1) // 2]


def gradient_at(model: Any, x: Tensor, y: Tensor, layer: int) -> list[list[float]]:
    """∂(mean loss)/∂h_l by a pass of its own that starts at h_l."""
    leaf = states(model, x)[layer].detach().requires_grad_()
    h = leaf
    for block in list(model.blocks)[layer:]:
        h = h + block(h)
    (gradient,) = torch.autograd.grad(mean_loss(readout(model, h), y), leaf)
    return rows(gradient)


def residual_norms(model: Any, x: Tensor) -> list[float]:
    return [median([length(row) for row in rows(state)]) for state in states(model, x)]


def bp_grad_norms(model: Any, x: Tensor, y: Tensor) -> list[float]:
    return [median([length(row) for row in gradient_at(model, x, y, layer)]) for layer in range(len(model.blocks) + 1)]


def stability(model: Any, batches: Batches, layer: int) -> float:
    directions = []
    for x, y in batches:
        gradient = gradient_at(model, x, y, layer)
        mean = [sum(column) / len(gradient) for column in zip(*gradient, strict=True)]
        size = length(mean)
        directions.append([0.0 if size < 1e-30 else value / size for value in mean])
    dots = [sum(a * b for a, b in zip(u, v, strict=True)) for u, v in combinations(directions, 2)]
    return sum(dots) / len(dots)


def growth(model: Any, x: Tensor) -> float:
    """max over blocks of the ratio of medians; as everywhere here, NaN loses every comparison."""
    return max(after / before for before, after in pairwise(residual_norms(model, x)))


def accuracy(model: Any, x: Tensor, y: Tensor) -> float:
    guesses = [row.index(max(row)) for row in readout(model, states(model, x)[-1]).tolist()]
    return sum(guess == label for guess, label in zip(guesses, y.tolist(), strict=True)) / len(guesses)


def diagnose(
    model: Any, batches: Batches, headline: float, frozen: float | None = None, layer: int | None = None
) -> str:
    """The four flags, and `trustworthy` where none is raised."""
    x, y = batches[0]
    layer = max(1, (len(model.blocks) + 1) // 2) if layer is None else layer
    flags = [
        flag
        for flag, raised in {
            "(a) scale": growth(model, x) > 50.0,
            "(b) reference": bp_grad_norms(model, x, y)[-1] < 1e-7,
            "(c) drift": stability(model, batches, layer) > 0.30,
            "(d) depth": frozen is not None and 100 * (headline - frozen) < 2.0,
        }.items()
        if raised
    ]
    return f"needs walk-back: {'; '.join(flags)}" if flags else "trustworthy"


def protocol(model: Any, x: Tensor, y: Tensor, frozen: float | None = None) -> str:
    """FAIL if (D1 and D2) or D3, else PASS."""
    degenerate = growth(model, x) > 50.0 and bp_grad_norms(model, x, y)[-1] < 1e-7
    shallow = frozen is not None and 100 * (accuracy(model, x, y) - frozen) < 2.0
    codes = (["D1", "D2"] if degenerate else []) + (["D3"] if shallow else [])
    return f"FAIL({'+'.join(codes)})" if codes else "PASS"
