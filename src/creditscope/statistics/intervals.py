"""95 % two-sided intervals of accuracies and of their differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist, fmean, stdev

LEVEL = 0.95
Interval = tuple[float, float]


def t_interval(values: Sequence[float]) -> Interval:
    """mean ± t_{n-1} · s/√n, s with ddof 1; needs two values."""
    return _student(fmean(values), _spread(values) / math.sqrt(len(values)), len(values) - 1)


def paired_interval(left: Sequence[float], right: Sequence[float]) -> Interval:
    """t-interval of the differences left_i - right_i, for seeds matched on both sides."""
    return t_interval([a - b for a, b in zip(left, right, strict=True)])


def welch_interval(left: Sequence[float], right: Sequence[float]) -> Interval:
    """Welch's interval for the difference of two means with unequal variances, for seeds that are not matched."""
    parts = [_spread(values) ** 2 / len(values) for values in (left, right)]
    error = math.sqrt(sum(parts))
    if error == 0:
        difference = fmean(left) - fmean(right)
        return difference, difference
    shares = sum(part**2 / (len(values) - 1) for part, values in zip(parts, (left, right), strict=True))
    return _student(fmean(left) - fmean(right), error, sum(parts) ** 2 / shares)


def wilson_interval(share: float, images: int) -> Interval:
    """Wilson's score interval for one proportion of `images`."""
    z = _normal_quantile()
    centre = (share + z * z / (2 * images)) / (1 + z * z / images)
    half = z * math.sqrt(share * (1 - share) / images + z * z / (4 * images**2)) / (1 + z * z / images)
    return max(0.0, centre - half), min(1.0, centre + half)


def binomial_bound(hits: int, trials: int) -> float:
    """One-sided 95 % upper bound of a proportion after `hits` of `trials` (Clopper and Pearson, 1934).

    The share p at which so few hits have a probability of 5 %: for no hits, 1 - 0.05^(1/trials).
    """
    from scipy.special import betaincinv

    return 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, LEVEL))


def newcombe_interval(left: float, left_images: int, right: float, right_images: int) -> Interval:
    """Newcombe's hybrid score interval (1998) for left - right, from the two Wilson intervals.

    d - √((p₁ - l₁)² + (u₂ - p₂)²)  to  d + √((u₁ - p₁)² + (p₂ - l₂)²)
    """
    low_left, high_left = wilson_interval(left, left_images)
    low_right, high_right = wilson_interval(right, right_images)
    difference = left - right
    down = math.hypot(left - low_left, high_right - right)
    up = math.hypot(high_left - left, right - low_right)
    return difference - down, difference + up


def discordant_interval(gained: int, lost: int, images: int) -> Interval:
    """Interval of (gained - lost)/images, two answers to the same images: only those that differ count.

    variance = (gained + lost + 1 - (gained - lost)²/images)/images², with one more differing image: never zero
    """
    difference = (gained - lost) / images
    error = math.sqrt(max(1.0, gained + lost + 1 - (gained - lost) ** 2 / images)) / images
    return difference - _normal_quantile() * error, difference + _normal_quantile() * error


def _spread(values: Sequence[float]) -> float:
    """Standard deviation (ddof 1); NaN if any value is not finite, which `statistics.stdev` does not accept."""
    return stdev(values) if all(math.isfinite(value) for value in values) else math.nan


def t_quantile(freedom: float) -> float:
    """The two-sided 95 % quantile of Student's t."""
    from scipy.special import stdtrit  # the t quantile itself; scipy.stats costs a second to import

    return float(stdtrit(freedom, (1 + LEVEL) / 2))


def _student(centre: float, error: float, freedom: float) -> Interval:
    half = t_quantile(freedom) * error
    return centre - half, centre + half


def _normal_quantile() -> float:
    return NormalDist().inv_cdf((1 + LEVEL) / 2)
