"""Mean, spread and interval over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from creditscope.statistics.intervals import t_interval, wilson_interval


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
