"""The variances that a margin is made of, beside slow and obvious twins of their formulas."""

from __future__ import annotations

import math
from statistics import variance

import numpy as np
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from creditscope.statistics.margin import (
    CHANCE,
    MANY,
    UNKNOWN_IMAGES,
    UNSEEN_SPREAD,
    binomial_variance,
    margin_of_accuracies,
    margin_of_answers,
    p_value,
    squared_half_width,
)

HARD = np.random.default_rng(3).random(40)


def answers(seeds: int, share: float, hard: np.ndarray = HARD) -> np.ndarray:
    """Right answers that depend on the image and, at random, on the seed."""
    return np.random.default_rng(seeds).random((seeds, 40)) * 0.3 + 0.7 * hard < share


def interaction(table: np.ndarray) -> float:
    """σ²_int, residual by residual."""
    seeds, images = table.shape
    own = table.mean()
    squares = [
        (table[s, i] - table[s].mean() - table[:, i].mean() + own) ** 2 for s in range(seeds) for i in range(images)
    ]
    return sum(squares) / ((seeds - 1) * (images - 1))


@pytest.mark.parametrize(("n", "m"), [(3, 4), (4, 4), (2, 2), (3, 1), (1, 3), (1, 1)])
def test_the_variance_over_images_is_without_what_seeds_add_at_random(n, m):
    trained, control = answers(n, 0.7), answers(m, 0.5, 1 - HARD)
    margin = margin_of_answers(trained, control)
    difference = [trained[:, i].mean() - control[:, i].mean() for i in range(40)]
    mean = sum(difference) / 40
    spread = (sum((d - mean) ** 2 for d in difference) + 1) / 41  # and one image on which they differ fully
    scatter = [interaction(arm) if len(arm) > 1 else None for arm in (trained, control)]
    known = next((one for one in scatter if one is not None), 0.0)
    taken_off = sum((known if one is None else one) / k for one, k in zip(scatter, (n, m), strict=True))
    assert margin.value == pytest.approx(mean)
    assert margin.images == pytest.approx(max(0.0, spread - taken_off) / 40)
    assert margin.images > 0
    assert margin.floors[0].variance == pytest.approx(spread / 40)
    assert margin.floors[0].freedom == MANY


def test_scatter_beyond_the_spread_over_images_leaves_no_variance_over_images():
    trained = np.tile(np.array([[True, False], [False, True]]), 20)  # each seed answers the other half of the images
    assert margin_of_answers(trained, trained).images == 0


FIRST, SECOND = (0.50, 0.56, 0.59, 0.61), (0.41, 0.44, 0.52, 0.53)


def test_named_seeds_that_correlate_are_paired_and_others_keep_their_own_variances():
    paired = margin_of_accuracies(FIRST, SECOND, images=500, matched=True)
    assert paired.seeds.variance == pytest.approx(variance(a - b for a, b in zip(FIRST, SECOND, strict=True)) / 4)
    assert paired.seeds.freedom == pytest.approx(3)
    for apart in (
        margin_of_accuracies(FIRST, SECOND, images=500),
        margin_of_accuracies(FIRST, SECOND[::-1], images=500, matched=True),
    ):
        parts = variance(FIRST) / 4, variance(SECOND) / 4
        assert apart.seeds.variance == pytest.approx(sum(parts))
        assert apart.seeds.freedom == pytest.approx(sum(parts) ** 2 / (parts[0] ** 2 / 3 + parts[1] ** 2 / 3))


def test_the_arm_with_fewer_seeds_is_a_floor_of_its_own():
    margin = margin_of_accuracies(FIRST, SECOND[:2], images=500)
    assert [(part.variance, part.freedom) for part in margin.floors[1:]] == [
        (pytest.approx(variance(SECOND[:2]) / 2), 1)
    ]
    assert len(margin_of_accuracies(FIRST, SECOND, images=500).floors) == 1


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_lone_number_is_given_the_spread_of_the_other_side(count):
    several = FIRST[:count]
    for margin, lone in (
        (margin_of_accuracies(several, (0.4,), images=500), "control"),
        (margin_of_accuracies((0.4,), several, images=500), "trained network"),
    ):
        assert margin.seeds.variance == pytest.approx(variance(several) * (1 + 1 / count))
        assert margin.seeds.freedom == pytest.approx(count - 1)
        assert margin.how.startswith(f"t-interval over {count} seeds; the single {lone} is given their spread")


def test_single_seeds_are_given_the_spread_of_seeds_that_were_not_run():
    margin = margin_of_accuracies((0.6,), (0.5,), images=500)
    assert margin.seeds.variance == pytest.approx(2 * UNSEEN_SPREAD**2)
    assert "3 points assumed between seeds" in margin.how


def test_images_add_their_binomial_variance_with_a_success_and_a_failure_more():
    margin = margin_of_accuracies(FIRST, SECOND, images=500)
    shares = [(500 * sum(arm) / 4 + 1) / 502 for arm in (FIRST, SECOND)]
    assert margin.images == pytest.approx(sum(p * (1 - p) / 502 for p in shares))
    assert binomial_variance(1.0, 10) == pytest.approx(11 / 12 * 1 / 12 / 12)
    assumed = margin_of_accuracies(FIRST, SECOND)
    assert assumed.images == pytest.approx(sum(binomial_variance(sum(arm) / 4, 1000) for arm in (FIRST, SECOND)))
    assert assumed.how.endswith("; 1,000 test images assumed")


@pytest.mark.parametrize("place", [0, 3])
def test_one_seed_that_is_no_number_leaves_no_interval(place):
    broken = [math.nan if k == place else value for k, value in enumerate(FIRST)]
    margin = margin_of_accuracies(broken, SECOND, images=500)
    assert all(map(math.isnan, margin.interval or ()))
    assert math.isnan(p_value(margin))


def test_the_p_value_is_the_level_at_which_the_interval_reaches_the_null():
    margin = margin_of_accuracies(FIRST, SECOND, images=500)
    low, high = margin.interval or (0.0, 0.0)
    assert p_value(margin, low) == pytest.approx(0.05, rel=1e-6)
    assert p_value(margin, high) == pytest.approx(0.05, rel=1e-6)
    assert p_value(margin, margin.value) == 1.0
    assert p_value(margin, low - 0.01) < 0.05 < p_value(margin, low + 0.01)
    assert 0 < p_value(margin, -1e9) <= 2e-12
    assert math.isnan(p_value(margin, math.nan))


def test_what_is_assumed_is_what_the_protocol_says():
    assert (UNSEEN_SPREAD, UNKNOWN_IMAGES, CHANCE) == (0.03, 1000, 0.05)


@pytest.mark.parametrize(("r", "paired"), [(0.88, False), (0.92, True)])
def test_four_named_seeds_are_paired_beyond_the_critical_correlation_of_nine_tenths(r, paired):
    first = np.array([-3.0, -1.0, 1.0, 3.0]) / math.sqrt(20)
    across = np.array([1.0, -1.0, -1.0, 1.0]) / 2
    second = r * first + math.sqrt(1 - r * r) * across
    margin = margin_of_accuracies(0.6 + first / 50, 0.4 + second / 50, images=500, matched=True)
    assert margin.how.startswith("paired" if paired else "Welch")


def test_three_seeds_can_be_paired_and_two_or_equal_ones_cannot():
    first, second = np.array([0.50, 0.55, 0.61]), np.array([0.40, 0.45, 0.51])
    assert margin_of_accuracies(first, second, images=500, matched=True).how.startswith("paired")
    assert margin_of_accuracies(first[:2], second[:2], images=500, matched=True).how.startswith("Welch")
    assert margin_of_accuracies([0.5] * 3, second, images=500, matched=True).how.startswith("Welch")


def test_nothing_is_paired_unless_the_seeds_are_named():
    trained, control = answers(3, 0.7), answers(3, 0.6)
    assert margin_of_answers(trained, control).how.startswith("Welch")
    assert margin_of_answers(trained, trained, matched=True).how.startswith("paired")


@pytest.mark.parametrize(("seeds", "freedom", "images"), [(1e-4, 3.0, 2e-4), (1e-4, 2.0, 0.0), (4e-4, 9.0, 1e-6)])
def test_the_width_of_a_sum_of_seeds_and_images_is_its_formula(seeds, freedom, images):
    z, t, total = norm.ppf(0.975), student.ppf(0.975, freedom), seeds + images
    expected = max(z**2 * total + (t**2 - z**2) * seeds**2 / total, t**2 * seeds)
    assert squared_half_width(seeds, freedom, images, 0.975) == pytest.approx(expected, rel=1e-4)


def test_the_null_is_no_margin_unless_another_is_named():
    margin = margin_of_accuracies(FIRST, SECOND, images=500)
    assert p_value(margin) == p_value(margin, 0.0)


def test_seeds_are_not_matched_unless_the_caller_says_so() -> None:
    counts = [10, 30, 50, 70, 90, 95]  # right answers of a hundred, rising alike on both sides
    control = np.array([[image < count for image in range(100)] for count in counts])
    trained = np.array([[image < count + 3 for image in range(100)] for count in counts])
    alone, paired = (margin_of_answers(trained, control, matched=matched).interval for matched in (False, True))
    assert margin_of_answers(trained, control).interval == alone != paired
