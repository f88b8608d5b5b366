"""Comparison of methods over seeds: paired differences, probability of improvement, Holm's correction."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

from creditscope.statistics.intervals import Interval
from creditscope.statistics.margin import Margin, margin_of_accuracies, p_value
from creditscope.statistics.power import seeds_to_settle

ALPHA = 0.05
Accuracies = Mapping[int, float]  # share by seed


@dataclass(frozen=True, slots=True)
class PairComparison:
    """Two methods beside each other, in shares; `difference` is left minus right.

    seeds        seeds that both sides have, where they are paired
    differences  left minus right for each of them
    interval     95 %, over seeds and test images, not corrected for the number of pairs
    improvement  P(left > right) + P(left = right)/2 over all pairs of a seed of each side
    p, adjusted  two-sided p-value of no difference, and after Holm's correction over all pairs
    more         further seeds per method that would decide it with 80 %; None if decided, or beyond a thousand
    """

    left: str
    right: str
    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    difference: float
    interval: Interval | None
    improvement: float
    p: float
    adjusted: float
    how: str
    more: int | None = None

    @property
    def decided(self) -> bool:
        """Whether the two differ, after the correction for the number of pairs."""
        return self.adjusted < ALPHA


def compare_all(methods: Mapping[str, Accuracies], images: int | None = None) -> tuple[PairComparison, ...]:
    """Every pair of methods; seeds are matched by their number, and those of one side only are left out.

    images  test images behind each accuracy, if known: their error joins that of the seeds
    """
    pairs = [_margins(methods[a], methods[b], images) for a, b in combinations(methods, 2)]
    raw = [p_value(margin) for _, _, _, margin in pairs]
    names = combinations(methods, 2)
    return tuple(
        _compared(*sides, own, p, adjusted, images)
        for sides, own, p, adjusted in zip(names, pairs, raw, holm(raw), strict=True)
    )


def _margins(
    left: Accuracies, right: Accuracies, images: int | None
) -> tuple[tuple[int, ...], list[float], list[float], Margin]:
    """The common seeds with the accuracies of both sides, or all accuracies where no seed is common."""
    seeds = tuple(seed for seed in left if seed in right)
    ours, theirs = (
        ([left[seed] for seed in seeds], [right[seed] for seed in seeds])
        if seeds
        else (list(left.values()), list(right.values()))
    )
    return seeds, ours, theirs, margin_of_accuracies(ours, theirs, images=images, matched=bool(seeds))


def _compared(
    left: str,
    right: str,
    own: tuple[tuple[int, ...], list[float], list[float], Margin],
    p: float,
    adjusted: float,
    images: int | None,
) -> PairComparison:
    seeds, ours, theirs, margin = own
    pairs = tuple(a - b for a, b in zip(ours, theirs, strict=True)) if seeds else ()
    more = None
    if not adjusted < ALPHA and min(len(ours), len(theirs)) > 1:
        needed = seeds_to_settle(ours, theirs, 0.0, images)
        more = None if needed is None else max(1, needed - min(len(ours), len(theirs)))
    improvement = probability_of_improvement(ours, theirs)
    return PairComparison(
        left, right, seeds, pairs, margin.value, margin.interval, improvement, p, adjusted, margin.how, more
    )


def probability_of_improvement(left: Sequence[float], right: Sequence[float]) -> float:
    """P(X > Y) + P(X = Y)/2 over all pairs: Mann and Whitney's U/(n m)."""
    if not all(map(math.isfinite, (*left, *right))):
        return math.nan
    return fmean(1.0 if x > y else 0.5 if x == y else 0.0 for x in left for y in right)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment (1979): p̃_(k) = max over j ≤ k of min(1, (m - j + 1) p_(j)); NaN counts as 1."""
    known = [1.0 if math.isnan(p) else p for p in p_values]
    order = sorted(range(len(known)), key=known.__getitem__)
    adjusted, highest = [1.0] * len(known), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(known) - rank) * known[index]))
        adjusted[index] = highest
    return adjusted
