"""Mean, spread and interval over seeds, and the number of seeds that would decide an open question."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from creditscope.statistics.intervals import t_interval, t_quantile, wilson_interval

MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class Spread:
    """Numbers over seeds: mean, standard deviation (ddof 1), 95 % t-interval; None for a single seed."""

    values: tuple[float, ...]
    mean: float
    std: float | None = None
    interval: tuple[float, float] | None = None
    note: str = ""


def spread(values: Sequence[float], images: int | None = None) -> Spread:
    """The spread over seeds; a single accuracy gets Wilson's interval over its test images."""
    values = tuple(values)
    if len(values) >= 2:
        std = stdev(values) if all(math.isfinite(value) for value in values) else math.nan
        return Spread(
            values=values, mean=fmean(values), std=std, interval=t_interval(values), note=f"t over {len(values)} seeds"
        )
    (value,) = values
    if images is None or not 0 <= value <= 1:
        return Spread(values=values, mean=value, note="single seed")
    return Spread(
        values=values,
        mean=value,
        interval=wilson_interval(value, images),
        note=f"single seed; Wilson's interval over {images:,} images",
    )


def seeds_to_settle(differences: Sequence[float], limit: float) -> int | None:
    """The smallest number of seeds whose interval would exclude the limit, at the same mean and spread.

    min n with  t_{n-1} · s/√n < |mean - limit|;  None if a thousand would not do, or if fewer than two are known.
    """
    if len(differences) < 2 or not all(math.isfinite(value) for value in differences):
        return None
    distance, s = abs(fmean(differences) - limit), stdev(differences)
    for n in range(2, MOST_SEEDS + 1):
        if t_quantile(n - 1) * s / math.sqrt(n) < distance:
            return n
    return None
