"""D1 to D4 the slow way: states written out by hand, one autograd call per batch, medians by sorting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from creditscope.records.report import Report
from creditscope.stream.trace import cross_entropy

Walk = Callable[[Any], tuple[list[Tensor], Tensor]]  # inputs -> the states h_0..h_L in one graph, and the logits
Reading = Callable[[Tensor], Tensor]  # a gradient -> (N, d) or (N, positions, d)


def first(state: Tensor) -> Tensor:
    return state[:, 0]


def mean(tensor: Tensor) -> Tensor:
    """Pooled tokens: the loss feels the sum over positions."""
    return tensor.sum(1)


def every(state: Tensor) -> Tensor:
    return state


def pooled(tensor: Tensor) -> Tensor:
    """Maps: the loss feels the sum over positions."""
    return tensor.sum((2, 3)) if tensor.dim() == 4 else tensor


def length(state: Tensor, read: Reading) -> Tensor:
    """Rows whose norms are the lengths of the states: where positions are pooled, √(mean ‖h_p‖²)."""
    if read is mean:
        return state.square().sum(2).mean(1, keepdim=True).sqrt()
    if read is pooled and state.dim() == 4:
        return state.square().sum(1).mean((1, 2)).sqrt()[:, None]
    return read(state)


def lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]


def by_hand(
    walk: Walk,
    batches: Iterable[tuple[Any, Tensor]],
    read: Reading,
    loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
) -> dict[str, float]:
    """D1, D2, D4 and the accuracy."""
    hidden: list[list[float]] = []
    gradient: list[list[float]] = []
    directions: list[Tensor] = []
    right = seen = 0
    for inputs, labels in batches:
        states, logits = walk(inputs)
        gradients = torch.autograd.grad(loss(logits, labels).sum(), states)
        for kept, tensors in ((hidden, states), (gradient, gradients)):
            kept.extend([] for _ in range(len(states) - len(kept)))
            for layer, tensor in enumerate(tensors):
                wide = tensor.detach().double()
                rows = length(wide, read) if kept is hidden else read(wide)
                kept[layer] += [float(row.norm()) for row in rows.reshape(-1, rows.shape[-1])]
        middle = read(gradients[max(1, len(states) // 2)]).double()
        mean_gradient = middle.reshape(-1, middle.shape[-1]).mean(0)
        directions.append(mean_gradient / mean_gradient.norm())
        right += int((logits.argmax(-1) == labels).sum())
        seen += labels.numel()
    medians = [lower_median(values) for values in hidden]
    cosines = [float(a @ b) for a, b in combinations(directions, 2)]
    return {
        "D1": max(after / before for before, after in pairwise(medians)),
        "D2": lower_median(gradient[-1]) / 128,
        "D4": sum(cosines) / len(cosines),
        "accuracy": right / seen,
    }


def agrees(report: Report, expected: dict[str, float], control: float, rel: float = 1e-3) -> None:
    """The report's D1 to D4 are the expected ones."""
    assert report.provenance.guards["gradient"].passed
    for code in ("D1", "D2", "D4"):
        assert report.findings[code].value == pytest.approx(expected[code], rel=rel, abs=1e-6), code
    assert report.accuracy == pytest.approx((expected["accuracy"],))
    assert report.findings["D3"].value == pytest.approx(100 * (expected["accuracy"] - control))
