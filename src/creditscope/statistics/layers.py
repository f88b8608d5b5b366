"""Numbers per layer reduced to one: deep means, z-scores, and the mean without its largest layer."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from statistics import fmean, stdev


def mean(values: Sequence[float]) -> float:
    """The plain mean; NaN if there are no values or any is NaN."""
    return fmean(values) if values else math.nan


def inexact(values: Sequence[float], exact: Collection[int]) -> list[float]:
    """The values of the layers whose credit is not the gradient by construction."""
    return [value for layer, value in enumerate(values) if layer not in exact]


def deep(values: Sequence[float], exact: Collection[int] = ()) -> list[float]:
    """The values of layers 1..L without the exact ones; of all of 1..L if every one is exact."""
    return [value for layer, value in enumerate(values) if layer and layer not in exact] or list(values[1:])


def deep_mean(values: Sequence[float], exact: Collection[int] = ()) -> float:
    """Mean over the deep layers."""
    return mean(deep(values, exact))


def spread(draws: Sequence[float]) -> float:
    """Standard deviation (ddof 1); NaN for fewer than two values or if any is not finite."""
    return stdev(draws) if len(draws) > 1 and all(map(math.isfinite, draws)) else math.nan


def z_score(value: float, draws: Sequence[float]) -> float:
    """z = (value - mean)/std of the draws (ddof 1); NaN if the draws are all equal."""
    sigma = spread(draws)
    return (value - fmean(draws)) / sigma if sigma > 0 else math.nan


def leave_best_out_ratio(values: Sequence[float]) -> float:
    """Mean without the largest value / mean of all values.

    >>> round(leave_best_out_ratio([0.42, 0.006, -0.015, -0.004, -0.004]), 2)
    -0.05
    """
    best = max(range(len(values)), key=values.__getitem__)
    return mean([value for layer, value in enumerate(values) if layer != best]) / mean(values)
