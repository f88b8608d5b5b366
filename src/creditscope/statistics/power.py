"""How many seeds decide a margin: the interval to expect, and the probability that it excludes the limit.

The interval is that of `margin_of_accuracies` for arms of n seeds each. With σ the standard deviation between seeds in
each arm and ι² the variance that N test images add to the margin,

    estimate ~ N(margin, 2σ²/n + ι²),    s_a², s_c² ~ σ² χ²_{n-1}/(n - 1),    all independent,
    P(decided) = E Φ((|margin - limit| - h(s_a, s_c)) / √(2σ²/n + ι²)),    h the half-width.

The expectation over the two spreads is a mean over a grid of their quantiles, so that nothing is drawn at random.
For accuracies alone ι² is that of networks which get half of their images right, the most that images can add; where
the answers are compared image by image it is δ/N, δ the share of images that only one of the two networks gets right.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from creditscope.errors import InvalidInput
from creditscope.statistics.intervals import LEVEL, t_quantile
from creditscope.statistics.layers import spread
from creditscope.statistics.margin import MANY, binomial_variance, squared_half_width_with, squared_quantile

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from creditscope.statistics.margin import Numbers

POINTS = 100.0
QUANTILES = 64  # per arm
LEAST_SEEDS, MOST_SEEDS = 2, 1000
LIKELY, CERTAIN = 0.80, 0.95  # the probabilities for which seeds are counted


@dataclass(frozen=True, slots=True)
class Question:
    """A margin to be told from a limit, all in percentage points.

    sd         standard deviation between seeds, the same in both arms
    images     test images behind each accuracy; None: so many that their error does not count
    differing  share of images that only one of the two networks gets right, where answers are compared image by image
    """

    sd: float
    margin: float
    limit: float = 2.0
    images: int | None = None
    differing: float | None = None

    def __post_init__(self) -> None:
        if not (0 <= self.sd <= POINTS and abs(self.margin) <= POINTS and abs(self.limit) <= POINTS):
            raise InvalidInput(
                f"sd = {self.sd:g}, margin = {self.margin:g} and limit = {self.limit:g} are not all between -100 and "
                "100, with sd at least 0.\n"
                "No number of seeds follows from them. Give percentage points: --sd 1 --margin 3."
            )
        if self.images is not None and self.images < 1:
            raise InvalidInput(
                f"images must be at least 1, got {self.images}.\n"
                "Their binomial error would not be defined. Give the number of test images."
            )
        if self.differing is not None and not 0 < self.differing <= 1:
            raise InvalidInput(
                f"differing must be a share above 0 and at most 1, got {self.differing:g}.\n"
                "The images' error would be wrong. Give the share of images that only one of the networks gets right."
            )
        if self.distance == 0:
            raise InvalidInput(
                f"The margin equals the limit, {self.limit:g} points.\n"
                "No number of seeds tells them apart. Give the margin that you expect, or another --limit."
            )

    @property
    def distance(self) -> float:
        """Points between the margin and the limit."""
        return abs(self.margin - self.limit)

    @property
    def image_variance(self) -> float:
        """ι², in points²."""
        if self.images is None:
            return 0.0
        if self.differing is not None:
            return POINTS**2 * self.differing / self.images
        return POINTS**2 * 2 * binomial_variance(0.5, self.images)

    @property
    def narrowest(self) -> float:
        """The half-width that no number of seeds goes below: the images' own."""
        return t_quantile(MANY) * math.sqrt(self.image_variance)


def expected_half_width(question: Question, seeds: int) -> float:
    """The mean half-width of the interval over `seeds` seeds in each arm, in points."""
    return float(_half_widths(question, seeds).mean())


def probability(question: Question, seeds: int) -> float:
    """The probability that the interval over `seeds` seeds in each arm lies on the margin's side of the limit."""
    from scipy.special import ndtr

    room = question.distance - _half_widths(question, seeds)
    error = math.sqrt(2 * question.sd**2 / seeds + question.image_variance)
    return float((ndtr(room / error) if error > 0 else room > 0).mean())


def seeds_to_decide(question: Question, chance: float = LIKELY) -> int | None:
    """The smallest number of seeds per arm that decides the question with this probability; None beyond a thousand."""
    return _first(lambda seeds: probability(question, seeds) >= chance)


def seeds_to_settle(
    trained: Sequence[float], control: Sequence[float], limit: float, images: int | None = None
) -> int | None:
    """Seeds per arm that would settle an open D3 with 80 %, if margin and spread stay as they are in these accuracies.

    trained, control  shares; an arm of one is given the other's spread; None if no arm has two finite numbers
    limit             in points; None for one that no margin can reach
    """
    spreads = [value for value in (spread(trained), spread(control)) if math.isfinite(value)]
    margin = POINTS * (sum(trained) / len(trained) - sum(control) / len(control))
    if not spreads or not math.isfinite(margin) or margin == limit or abs(limit) > POINTS:
        return None
    sd = POINTS * math.sqrt(sum(value**2 for value in spreads) / len(spreads))
    return seeds_to_decide(Question(sd, margin, limit, images))


def _half_widths(question: Question, seeds: int) -> NDArray[numpy.float64]:
    """The half-widths over a grid of quantiles of the two spreads, images included."""
    import numpy

    total, student = _grid(seeds)
    images, level = question.image_variance, (1 + LEVEL) / 2
    squared = squared_half_width_with(question.sd**2 * total, student, images, level)
    widths: NDArray[numpy.float64] = numpy.maximum(numpy.sqrt(squared), question.narrowest)
    return widths


@lru_cache(maxsize=64)
def _grid(seeds: int) -> tuple[NDArray[numpy.float64], Numbers]:
    """The variance of a margin for sd = 1 and its t_ν², over a grid of quantiles of the two spreads."""
    import numpy
    from scipy.special import gammaincinv

    freedom = seeds - 1
    middles = (numpy.arange(QUANTILES) + 0.5) / QUANTILES
    variances = 2 * gammaincinv(freedom / 2, middles) / freedom / seeds
    one, other = variances[:, None], variances[None, :]
    total = one + other
    degrees = freedom * total**2 / (one**2 + other**2)
    return total, squared_quantile(degrees, (1 + LEVEL) / 2)


def _first(holds: Callable[[int], bool]) -> int | None:
    """The smallest number of seeds for which it holds, by bisection: what holds for some seeds holds for more."""
    high = LEAST_SEEDS
    while not holds(high):
        if high == MOST_SEEDS:
            return None
        high = min(2 * high, MOST_SEEDS)
    low = max(LEAST_SEEDS, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high
