"""The margin between two arms of runs, with an interval that covers seeds and images.

An arm is a method over its seeds: accuracies, or which test images each seed got right. The interval is for the margin
between the *methods*, so both the draw of the seeds and the draw of the test images count:

    variance = seeds + images,    half-width = t_ν · √variance,    ν by Welch and Satterthwaite

Images that are hard for every seed do not average out over seeds, so their part does not shrink with the number of
seeds; it is told from the seeds' part where the answers per image are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING

from creditscope.statistics.intervals import LEVEL, Interval, _spread

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

UNSEEN_SPREAD = 0.03  # standard deviation between seeds where only one was run: the largest of our own records
UNKNOWN_IMAGES = 1000  # test images behind an accuracy where nobody says how many: few for a benchmark
MANY = 1e6  # degrees of freedom beyond which Student's t is the normal distribution
CHANCE = 0.05  # two arms that share their seeds are paired only if they correlate beyond this one-sided level


@dataclass(frozen=True, slots=True)
class Margin:
    """Mean accuracy of one arm minus that of the other, as a share; `interval` is None where nothing is known of it.

    error, freedom  standard error of the margin and its degrees of freedom
    least           standard error of the images alone, below which the interval never goes
    """

    value: float
    interval: Interval | None
    how: str
    error: float = math.nan
    freedom: float = math.nan
    least: float = 0.0


@dataclass(frozen=True, slots=True)
class _Part:
    """One estimated variance of the margin, with its degrees of freedom."""

    variance: float
    freedom: float


def margin_of_accuracies(
    trained: Sequence[float], control: Sequence[float], *, images: int | None = None, matched: bool = False
) -> Margin:
    """The margin from accuracies alone, one per seed.

    images   test images behind each accuracy; their binomial error p(1 - p)/N + q(1 - q)/N joins the seeds' error.
             Unknown: 1,000 are assumed, because an interval without them is too narrow where seeds spread little
    matched  whether the caller named the seeds of both sides, in the same order
    """
    value = fmean(trained) - fmean(control)
    binomial = sum(binomial_variance(fmean(arm), images or UNKNOWN_IMAGES) for arm in (trained, control))
    if len(trained) == len(control) == 1 and images is None:
        return Margin(value, None, "single seed; neither the number of test images nor the spread of seeds is known")
    seeds, how = _seed_parts(trained, control, matched)
    over = f"; {UNKNOWN_IMAGES:,} test images assumed" if images is None else f" and {images:,} test images"
    return _margin(value, [*seeds, _Part(binomial, MANY)], binomial, how + over)


def margin_of_answers(trained: NDArray[numpy.bool_], control: NDArray[numpy.bool_], *, matched: bool = False) -> Margin:
    """The margin from the answers themselves: which images each seed got right, (seeds, images) on each side.

    With D_i the difference at image i, averaged over seeds, its variance over images is that of the images themselves
    plus what seeds add at random, σ²_int/seeds on each side. The second part is in the spread between seeds already:

        variance = s²_a/n + s²_c/m + (Var_i D_i - σ²_int,a/n - σ²_int,c/m)/N,    never below Var_i D_i/N
    """
    n, m, images = len(trained), len(control), trained.shape[1]
    difference = trained.mean(0) - control.mean(0)
    spread = (float(difference.var(ddof=0)) * images + 1) / (images + 1)  # one more image on which they differ
    seeds, how = _seed_parts(trained.mean(1).tolist(), control.mean(1).tolist(), matched)
    by_chance = [_interaction(arm) for arm in (trained, control)]
    known = [value for value in by_chance if value is not None]
    lone = known[0] if known else 0.0  # a single run is taken to scatter as the other side does
    shared = spread - sum((lone if value is None else value) / k for value, k in zip(by_chance, (n, m), strict=True))
    parts = [*seeds, _Part(max(0.0, shared if known else spread) / images, MANY)]
    return _margin(
        float(difference.mean()), parts, spread / images, f"{how}, paired over the same {images:,} test images"
    )


def _interaction(answers: NDArray[numpy.bool_]) -> float | None:
    """σ²_int: variance of the answers once the means of their seed and of their image are taken off; None for one."""
    seeds, images = answers.shape
    if seeds < 2:
        return None
    rest = answers - answers.mean(1, keepdims=True) - answers.mean(0) + answers.mean()
    return float((rest**2).sum()) / float((seeds - 1) * (images - 1))


def _seed_parts(trained: Sequence[float], control: Sequence[float], matched: bool) -> tuple[list[_Part], str]:
    """What the seeds contribute to the variance of the margin, and in which words."""
    n, m = len(trained), len(control)
    if n == m == 1:
        assumed = _Part(2 * UNSEEN_SPREAD**2, MANY)
        return [assumed], f"single seed: {100 * UNSEEN_SPREAD:g} points assumed between seeds that were not run"
    if n >= 2 and m >= 2:
        if matched and n == m and _correlate(trained, control):
            pairs = [a - b for a, b in zip(trained, control, strict=True)]
            return [_Part(_variance(pairs) / n, n - 1)], f"paired t-interval over {n} seeds"
        parts = [_Part(_variance(arm) / len(arm), len(arm) - 1) for arm in (trained, control)]
        return parts, f"Welch's t-interval over {n} and {m} seeds"
    several = trained if n >= 2 else control
    k = len(several)
    part = _Part(_variance(several) * (1 + 1 / k), k - 1)
    lone = "control" if m == 1 else "trained network"
    return [part], f"t-interval over {k} seeds; the single {lone} is given their spread"


def _variance(values: Sequence[float]) -> float:
    """Variance (ddof 1); NaN if any value is not finite."""
    return _spread(values) ** 2


def _correlate(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether two lists correlate by more than chance, so that pairing them narrows the interval."""
    from scipy.special import stdtrit

    n = len(first)
    a, b = ([value - fmean(values) for value in values] for values in (first, second))
    scale = math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))
    if n < 3 or scale == 0:
        return False
    r = sum(x * y for x, y in zip(a, b, strict=True)) / scale
    critical = float(stdtrit(n - 2, 1 - CHANCE))
    return r * math.sqrt(n - 2) > critical * math.sqrt(max(0.0, 1 - r * r))


def binomial_variance(share: float, images: int) -> float:
    """Variance of a share of images, of one more success and one more failure: never zero (Agresti and Caffo, 2000)."""
    adjusted = (share * images + 1) / (images + 2)
    return adjusted * (1 - adjusted) / (images + 2)


def _margin(value: float, parts: Sequence[_Part], floor: float, how: str) -> Margin:
    """The interval of a margin whose variance is the sum of the parts, never narrower than the images' own."""
    total = sum(part.variance for part in parts)
    if not math.isfinite(total):
        return Margin(value, (math.nan, math.nan), how)
    scatter = sum(part.variance**2 / part.freedom for part in parts)
    freedom = total**2 / scatter if scatter > 0 else MANY
    half = max(_quantile(freedom) * math.sqrt(total), _quantile(MANY) * math.sqrt(floor))
    return Margin(value, (value - half, value + half), how, math.sqrt(total), min(freedom, MANY), math.sqrt(floor))


def p_value(margin: Margin, null: float = 0.0) -> float:
    """Two-sided p-value of margin = null: at most 5 % exactly where the 95 % interval excludes it; NaN if unknown."""
    from scipy.special import stdtr

    distance = abs(margin.value - null)
    if math.isnan(margin.error) or math.isnan(distance):
        return math.nan
    tests = ((margin.error, margin.freedom), (margin.least, MANY))
    return max(
        2 * float(stdtr(freedom, -distance / error)) if error > 0 else float(distance == 0) for error, freedom in tests
    )


def _quantile(freedom: float) -> float:
    """Student's t at the level of the intervals."""
    from scipy.special import stdtrit

    return float(stdtrit(min(freedom, MANY), (1 + LEVEL) / 2))
