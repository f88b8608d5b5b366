"""Ratios measured in one run: medians over interleaved repeats, so that a noisy machine disturbs all sides alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median


def interleaved(
    ways: Mapping[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, list[float]]:
    """Seconds of every way, taken in turns after one warm-up each.

    clock = time.process_time counts the seconds that the process really ran: neighbours on the machine do not enter.
    """
    for way in ways.values():
        way()
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            started = clock()
            way()
            taken[name].append(clock() - started)
    return taken


def ratio(taken: Mapping[str, list[float]], name: str, to: str) -> float:
    """Median over the repeats of the ratio of two ways within one repeat."""
    return median(a / b for a, b in zip(taken[name], taken[to], strict=True))
