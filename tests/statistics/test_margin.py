"""The margin between two arms: what its interval is made of, and how often it covers."""

from __future__ import annotations

import math
from itertools import product
from statistics import NormalDist, fmean, variance

import numpy as np
import pytest
from scipy.stats import t as student

from creditscope.statistics.margin import Margin, margin_of_accuracies, margin_of_answers

NORMAL = NormalDist()


def half(margin: Margin) -> float:
    assert margin.interval is not None
    low, high = margin.interval
    assert low <= margin.value <= high
    return (high - low) / 2


def answers(shares: list[float], images: int = 1000) -> np.ndarray:
    """Runs that get the first images right, as many as their accuracy says."""
    return np.array([np.arange(images) < share * images for share in shares])


MANY_IMAGES = 10**12  # their error is nothing


def test_unmatched_seeds_on_many_images_are_welchs_interval() -> None:
    a, b = [0.50, 0.52, 0.57], [0.40, 0.41, 0.45, 0.43]
    parts = [variance(a) / 3, variance(b) / 4]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    expected = student.ppf(0.975, freedom) * math.sqrt(sum(parts))
    assert half(margin_of_accuracies(a, b, images=MANY_IMAGES)) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("shares", [([0.5, 0.52, 0.57], [0.4, 0.41, 0.45]), ([0.5, 0.52, 0.57], [0.4])])
def test_an_unknown_number_of_images_is_taken_as_a_thousand_and_said(shares: tuple[list[float], list[float]]) -> None:
    margin = margin_of_accuracies(*shares)
    assert margin.interval == margin_of_accuracies(*shares, images=1000).interval
    assert margin.how.endswith("; 1,000 test images assumed")


def test_a_lone_number_gets_the_spread_of_the_other_side() -> None:
    a = [0.50, 0.52, 0.57]
    expected = student.ppf(0.975, 2) * math.sqrt(variance(a) * (1 + 1 / 3))
    for arms in ((a, [0.4]), ([0.4], a)):
        margin = margin_of_accuracies(*arms, images=MANY_IMAGES)
        assert half(margin) == pytest.approx(expected, rel=1e-6)
        assert "is given their spread" in margin.how


def test_one_seed_on_both_sides_is_widened_by_the_seeds_that_were_not_run() -> None:
    margin = margin_of_accuracies([0.5], [0.4], images=10**12)
    assert half(margin) == pytest.approx(1.959964 * math.sqrt(2) * 0.03, rel=1e-5)
    assert margin.how.startswith("single seed: 3 points assumed")


def test_two_typed_numbers_have_no_interval() -> None:
    assert margin_of_accuracies([0.5], [0.4]).interval is None


def test_image_error_joins_seed_error_in_quadrature() -> None:
    a, b = [0.50, 0.52, 0.57], [0.40, 0.41, 0.45]
    without, within = (half(margin_of_accuracies(a, b, images=images)) for images in (MANY_IMAGES, 1000))
    few = half(margin_of_accuracies(a, b, images=100))
    assert few > within
    error = math.sqrt(0.53 * 0.47 / 1000 + 0.42 * 0.58 / 1000)
    assert within > 1.95 * error
    assert without > 0


@pytest.mark.parametrize("shares", [([1.0], [0.0]), ([0.0, 0.0], [0.0, 0.0]), ([0.5, 0.5], [0.5, 0.5])])
def test_no_interval_has_zero_width(shares: tuple[list[float], list[float]]) -> None:
    trained, control = shares
    assert half(margin_of_accuracies(trained, control, images=1000)) > 1e-4
    assert half(margin_of_answers(answers(trained), answers(control))) > 1e-4


def test_the_same_answers_on_both_sides_are_compared_image_by_image() -> None:
    """Arms that agree on most images are told apart by the others alone; an unpaired interval is wider."""
    rng = np.random.default_rng(0)
    base = rng.random((3, 2000)) < 0.5
    better = base | (rng.random((3, 2000)) < 0.02)
    paired = half(margin_of_answers(better, base))
    unpaired = half(margin_of_accuracies(better.mean(1).tolist(), base.mean(1).tolist(), images=2000))
    assert paired < unpaired


def test_matched_seeds_are_paired_only_where_they_correlate_beyond_chance() -> None:
    a = [0.50, 0.52, 0.57, 0.51, 0.55]
    along = [value - 0.1 + 0.0001 * i for i, value in enumerate(a)]
    against = along[::-1]
    assert margin_of_accuracies(a, along, matched=True).how.startswith("paired")
    assert margin_of_accuracies(a, against, matched=True).how.startswith("Welch")
    assert margin_of_accuracies(a, along).how.startswith("Welch")
    paired, unpaired = (
        half(margin_of_accuracies(a, along, images=MANY_IMAGES, matched=matched)) for matched in (True, False)
    )
    assert paired < unpaired / 10


def test_a_number_that_is_none_gives_an_interval_that_is_none() -> None:
    assert all(math.isnan(end) for end in margin_of_accuracies([0.5, math.nan], [0.4, 0.3]).interval or ())


# --- coverage ---

BETWEEN_ARMS, WITHIN_ARM = 0.5, 0.25  # of the latent variance: shared by all runs, shared by the seeds of one arm


def simulated(
    n: int, m: int, spread: float, images: int, rng: np.random.Generator, p: float = 0.45, q: float = 0.40
) -> tuple[np.ndarray, np.ndarray]:
    """Answers of n and m seeds to the same images: a probit model with hard images, seed effects and chance.

    right if  μ + u_seed + b_image + w_(arm, image) + noise > 0; the true margin is p - q for any spread of the seeds.
    """
    hard = rng.standard_normal(images) * math.sqrt(BETWEEN_ARMS)

    def arm(share: float, seeds: int) -> np.ndarray:
        latent = NORMAL.inv_cdf(share)
        shift = rng.standard_normal(seeds) * spread / NORMAL.pdf(latent)
        latent *= math.sqrt(1 + (spread / NORMAL.pdf(latent)) ** 2)  # the seeds' own effect leaves the mean alone
        own = rng.standard_normal(images) * math.sqrt(WITHIN_ARM)
        noise = rng.standard_normal((seeds, images)) * math.sqrt(1 - BETWEEN_ARMS - WITHIN_ARM)
        return latent + shift[:, None] + hard + own + noise > 0

    return arm(p, n), arm(q, m)


def coverage(n: int, m: int, spread: float, images: int, repeats: int, shape: str) -> float:
    rng = np.random.default_rng([n, m, int(1e4 * spread), images])
    hits = 0
    for _ in range(repeats):
        trained, control = simulated(n, m, spread, images, rng)
        if shape == "answers":
            margin = margin_of_answers(trained, control)
        else:
            known = images if shape == "accuracies of known images" else None
            margin = margin_of_accuracies(trained.mean(1).tolist(), control.mean(1).tolist(), images=known)
        assert margin.interval is not None
        hits += margin.interval[0] <= 0.05 <= margin.interval[1]
    return hits / repeats


def within_chance(share: float, low: float, high: float, repeats: int) -> bool:
    """Whether a share of repeats is compatible with a coverage between `low` and `high` (two standard errors)."""
    slack = 2 * math.sqrt(0.05 * 0.95 / repeats)
    return low - slack <= share <= high + slack


SEEDS = [(2, 2), (3, 3), (5, 5), (10, 10), (3, 1), (1, 5), (10, 1)]
SPREADS = (0.005, 0.01, 0.03)
GRID = list(product(SEEDS, SPREADS, (1000, 10_000)))
REPEATS = 2000  # two standard errors are one point
SHAPES = ("accuracies of known images", "accuracies alone")


def test_answers_per_image_give_intervals_that_cover() -> None:
    """One cell of the grid below, which is slow."""
    share = coverage(3, 3, 0.01, 1000, REPEATS, "answers")
    assert within_chance(share, 0.93, 0.97, REPEATS), share


@pytest.mark.slow
@pytest.mark.parametrize(("seeds", "spread", "images"), GRID)
def test_answers_per_image_give_intervals_that_cover_everywhere(
    seeds: tuple[int, int], spread: float, images: int
) -> None:
    share = coverage(*seeds, spread, images, REPEATS, "answers")
    assert within_chance(share, 0.93, 0.97, REPEATS), share


@pytest.mark.parametrize("shape", SHAPES)
def test_accuracies_alone_cover(shape: str) -> None:
    """One cell of the grid below, that with the smallest spread, where images count most."""
    assert coverage(10, 10, 0.005, 1000, 500, shape) >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("seeds", "spread", "images"), GRID)
def test_accuracies_alone_never_cover_less(seeds: tuple[int, int], spread: float, images: int, shape: str) -> None:
    """Without the answers the images' error cannot be told from the seeds': the interval is wide, never narrow."""
    share = coverage(*seeds, spread, images, REPEATS, shape)
    assert within_chance(share, 0.93, 1.0, REPEATS), share


@pytest.mark.parametrize("spread", SPREADS)
def test_one_seed_on_both_sides_covers_up_to_a_spread_of_three_points(spread: float) -> None:
    assert within_chance(coverage(1, 1, spread, 1000, REPEATS, SHAPES[0]), 0.93, 1.0, REPEATS)


def test_a_control_taken_as_exact_would_not_cover() -> None:
    """The first edition's rule, for comparison: one control number against n seeds, its own error ignored."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        trained, control = simulated(10, 1, 0.01, 1000, rng)
        shares = trained.mean(1).tolist()
        error = student.ppf(0.975, 9) * math.sqrt(variance(shares) / 10)
        hits += abs(fmean(shares) - float(control.mean()) - 0.05) <= error
    assert hits / 400 < 0.75
