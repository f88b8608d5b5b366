"""The margin between two arms of runs, with an interval that covers seeds and images.

An arm is a method over its seeds: accuracies, or which test images each seed got right. The interval is for the margin
between the *methods*, so both the draw of the seeds and the draw of the test images count. With S the seeds' variance
of the margin, estimated with ν degrees of freedom (Welch), and I that of the images,

    V = S + I,    half-width² = z² V + (t_ν² - z²) S²/V,    at least t_ν² S

z and t_ν are the normal quantile and Student's. Welch and Satterthwaite take ν V²/S² degrees of freedom for the sum,
estimated from S itself: where S is small by chance they also trust it too much (92 % coverage at ν = 2, 87 % at ν = 1),
and an error of the images that grows would narrow the interval. Here the excess t_ν² - z² is weighted by (S/V)², as
theirs to first order in 1/ν, and the seeds alone are a floor.

Images that are hard for every seed do not average out over seeds, so their part does not shrink with the number of
seeds; it is told from the seeds' part where the answers per image are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import fmean
from typing import TYPE_CHECKING

from creditscope.statistics.intervals import LEVEL, Interval

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Numbers = float | NDArray[numpy.float64]

UNSEEN_SPREAD = 0.03  # standard deviation between seeds where only one was run: above that of 9 in 10 of our settings
UNKNOWN_IMAGES = 1000  # test images behind an accuracy where nobody says how many: few for a benchmark
MANY = 1e6  # degrees of freedom beyond which Student's t is the normal distribution
SMALLEST = 1e-12  # p-values are not told apart below
CHANCE = 0.05  # two arms that share their seeds are paired only if they correlate beyond this one-sided level


@dataclass(frozen=True, slots=True)
class Part:
    """One variance of the margin, with its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Margin:
    """Mean accuracy of one arm minus that of the other, as a share; `interval` is None where nothing is known of it.

    seeds, images  variances of the margin; that of the images counts as known
    floors         parts below whose own interval it never goes: the images alone, the arm with fewer seeds alone
    """

    value: float
    interval: Interval | None
    how: str
    seeds: Part = field(default=Part(math.nan, math.nan))
    images: float = math.nan
    floors: tuple[Part, ...] = ()


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
    over = f"; {UNKNOWN_IMAGES:,} test images assumed" if images is None else f" and {images:,} test images"
    seeds, how = _seed_parts(trained, control, matched)
    return _margin(value, seeds, binomial, Part(binomial, MANY), how + over)


def margin_of_answers(trained: NDArray[numpy.bool_], control: NDArray[numpy.bool_], *, matched: bool = False) -> Margin:
    """The margin from the answers themselves: which images each seed got right, (seeds, images) on each side.

    With D_i the difference at image i, averaged over seeds, its variance over images is that of the images themselves
    plus what seeds add at random, σ²_int/seeds on each side. The second part is in the spread between seeds already:

        S = s²_a/n + s²_c/m,    I = (Var_i D_i - σ²_int,a/n - σ²_int,c/m)/N,    S + I never below Var_i D_i/N
    """
    n, m, images = len(trained), len(control), trained.shape[1]
    difference = trained.mean(0) - control.mean(0)
    spread = (float(difference.var(ddof=0)) * images + 1) / (images + 1)  # one more image on which they differ
    seeds, how = _seed_parts(trained.mean(1).tolist(), control.mean(1).tolist(), matched)
    by_chance = [_interaction(arm) for arm in (trained, control)]
    known = [value for value in by_chance if value is not None]
    lone = known[0] if known else 0.0  # a single run is taken to scatter as the other side does
    shared = spread - sum((lone if value is None else value) / k for value, k in zip(by_chance, (n, m), strict=True))
    within = max(0.0, shared if known else spread) / images
    how = f"{how}, paired over the same {images:,} test images"
    return _margin(float(difference.mean()), seeds, within, Part(spread / images, MANY), how)


def _interaction(answers: NDArray[numpy.bool_]) -> float | None:
    """σ²_int: variance of the answers once the means of their seed and of their image are taken off; None for one.

    Σ x² - N Σ_s x̄_s² - n Σ_i x̄_i² + n N x̄², over (n - 1)(N - 1); x² = x.
    """
    seeds, images = answers.shape
    if seeds < 2:
        return None
    by_seed, by_image = answers.mean(1), answers.mean(0)
    mean = float(by_seed.mean())
    rest = seeds * images * (mean + mean**2) - images * (by_seed**2).sum() - seeds * (by_image**2).sum()
    return float(rest) / float((seeds - 1) * (images - 1))


def _seed_parts(trained: Sequence[float], control: Sequence[float], matched: bool) -> tuple[list[Part], str]:
    """What the seeds contribute to the variance of the margin, and in which words; the arm with fewer seeds first."""
    n, m = len(trained), len(control)
    if n == m == 1:
        assumed = Part(2 * UNSEEN_SPREAD**2, MANY)
        return [assumed], f"single seed: {100 * UNSEEN_SPREAD:g} points assumed between seeds that were not run"
    if n >= 2 and m >= 2:
        if matched and n == m and _correlate(trained, control):
            pairs = [a - b for a, b in zip(trained, control, strict=True)]
            return [Part(_variance(pairs) / n, n - 1)], f"paired t-interval over {n} seeds"
        parts = [Part(_variance(arm) / len(arm), len(arm) - 1) for arm in sorted((trained, control), key=len)]
        return parts, f"Welch's t-interval over {n} and {m} seeds"
    several = trained if n >= 2 else control
    k = len(several)
    part = Part(_variance(several) * (1 + 1 / k), k - 1)
    lone = "control" if m == 1 else "trained network"
    return [part], f"t-interval over {k} seeds; the single {lone} is given their spread"


def _variance(values: Sequence[float]) -> float:
    """Variance (ddof 1); NaN if any value is not finite."""
    if not all(map(math.isfinite, values)):
        return math.nan
    mean = fmean(values)
    return math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


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


def _margin(value: float, seeds: Sequence[Part], images: float, least: Part, how: str) -> Margin:
    """The interval of a margin whose variance is that of the seeds and of the images."""
    total = sum(part.variance for part in seeds)
    if not math.isfinite(total + images):
        return Margin(value, (math.nan, math.nan), how)
    unequal = len({part.freedom for part in seeds}) > 1
    floors = (least, *seeds[:1]) if unequal else (least,)
    margin = Margin(value, None, how, Part(total, _welch(seeds)), images, floors)
    half = _half_width(margin, (1 + LEVEL) / 2)
    return replace(margin, interval=(value - half, value + half))


def _welch(parts: Sequence[Part]) -> float:
    """Degrees of freedom of a sum of estimated variances: (Σ v)² / Σ v²/ν."""
    scatter = sum(part.variance**2 / part.freedom for part in parts)
    return min(sum(part.variance for part in parts) ** 2 / scatter, MANY) if scatter > 0 else MANY


def squared_half_width(seeds: Numbers, freedom: Numbers, images: float, probability: float) -> Numbers:
    """z² V + (t_ν² - z²) S²/V with V = S + I, at least t_ν² S; S and ν may be arrays."""
    if isinstance(freedom, float):
        student = _known_quantile(freedom, probability)
    else:
        student = squared_quantile(freedom, probability)
    return squared_half_width_with(seeds, student, images, probability)


def squared_half_width_with(seeds: Numbers, student: Numbers, images: float, probability: float) -> Numbers:
    """The same, squared too, where t_ν² is known."""
    import numpy

    normal = _known_quantile(MANY, probability)
    total = numpy.maximum(seeds + images, numpy.finfo(float).tiny)
    squared: Numbers = numpy.maximum(normal * total + (student - normal) * seeds**2 / total, student * seeds)
    return squared


def squared_quantile(freedom: Numbers, probability: float) -> Numbers:
    """t_ν²; for a single ν it is computed once."""
    from scipy.special import stdtrit

    squared: Numbers = stdtrit(freedom, probability) ** 2
    return squared


_known_quantile = lru_cache(maxsize=4096)(squared_quantile)


def _half_width(margin: Margin, probability: float) -> float:
    """Half the width of the interval between the quantiles 1 - probability and probability."""
    own = squared_half_width(margin.seeds.variance, margin.seeds.freedom, margin.images, probability)
    floors = (squared_half_width(part.variance, part.freedom, 0.0, probability) for part in margin.floors)
    return math.sqrt(max(float(own), *map(float, floors)))


def p_value(margin: Margin, null: float = 0.0) -> float:
    """Two-sided p-value of margin = null, the level at which the interval just reaches it; NaN if unknown.

    At most 5 % exactly where the 95 % interval excludes the null.
    """
    distance = abs(margin.value - null)
    if math.isnan(margin.seeds.variance) or math.isnan(distance):
        return math.nan
    low, high = 0.0, 1.0
    while high - low > 1e-9 * high and high > SMALLEST:
        middle = (low + high) / 2
        low, high = (low, middle) if _half_width(margin, 1 - middle / 2) <= distance else (middle, high)
    return high
