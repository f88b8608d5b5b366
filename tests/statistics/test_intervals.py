"""Intervals agree with scipy's own, and cover what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from creditscope.statistics.intervals import (
    discordant_interval,
    newcombe_interval,
    paired_interval,
    t_interval,
    welch_interval,
    wilson_interval,
)

shares = st.floats(0.01, 0.99)
seeds = st.lists(shares, min_size=2, max_size=6)


def spread(values: list[float]) -> bool:
    return float(np.std(values)) > 1e-6


@given(seeds.filter(spread))
def test_a_t_interval_is_scipys(values: list[float]) -> None:
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert t_interval(values) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


@given(st.lists(st.tuples(shares, shares), min_size=2, max_size=6).filter(lambda p: spread([a - b for a, b in p])))
def test_matched_seeds_are_compared_in_pairs(pairs: list[tuple[float, float]]) -> None:
    left, right = zip(*pairs, strict=True)
    expected = stats.ttest_rel(left, right).confidence_interval(0.95)
    assert paired_interval(left, right) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


@given(seeds.filter(spread), seeds.filter(spread))
def test_unmatched_seeds_are_compared_as_welch_did(left: list[float], right: list[float]) -> None:
    expected = stats.ttest_ind(left, right, equal_var=False).confidence_interval(0.95)
    assert welch_interval(left, right) == pytest.approx((expected.low, expected.high), rel=1e-9, abs=1e-12)


def test_seeds_without_any_spread_give_an_interval_without_width() -> None:
    assert welch_interval([0.75, 0.75], [0.5, 0.5, 0.5]) == (0.25, 0.25)
    assert t_interval([0.25, 0.25]) == (0.25, 0.25)


@given(st.integers(1, 2000), st.data())
def test_wilsons_interval_is_scipys(images: int, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, images))
    expected = stats.binomtest(right, images).proportion_ci(0.95, method="wilson")
    assert wilson_interval(right / images, images) == pytest.approx((expected.low, expected.high), abs=1e-12)


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
    ],
)
def test_newcombes_interval_is_the_one_of_his_table(
    left: tuple[int, int], right: tuple[int, int], expected: tuple[float, float]
) -> None:
    found = newcombe_interval(left[0] / left[1], left[1], right[0] / right[1], right[1])
    assert found == pytest.approx(expected, abs=6e-5)


@given(shares, shares, st.integers(10, 5000))
def test_an_interval_turns_round_with_its_sides(left: float, right: float, images: int) -> None:
    low, high = newcombe_interval(left, images, right, images)
    assert newcombe_interval(right, images, left, images) == pytest.approx((-high, -low), abs=1e-12)
    assert low <= left - right <= high


def test_with_three_seeds_the_t_interval_covers_95_in_100_and_mean_and_spread_do_not() -> None:
    draws = np.random.default_rng(0).normal(size=(1500, 3))
    covered = np.mean([low <= 0 <= high for low, high in map(t_interval, draws.tolist())])
    naive = np.mean(np.abs(draws.mean(1)) <= draws.std(1, ddof=1))
    assert covered == pytest.approx(0.95, abs=0.02)
    assert naive < 0.85


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_value_that_is_no_number_makes_an_interval_that_is_none(bad: float) -> None:
    for interval in (
        t_interval([0.3, bad]),
        paired_interval([0.3, bad], [0.2, 0.2]),
        welch_interval([0.3, 0.4, bad], [0.2, 0.1]),
    ):
        assert not all(map(math.isfinite, interval))


@pytest.mark.parametrize(("gained", "lost", "images"), [(30, 10, 200), (0, 0, 50), (5, 0, 5), (7, 7, 100)])
def test_answers_to_the_same_images_differ_only_where_one_is_right(gained: int, lost: int, images: int) -> None:
    low, high = discordant_interval(gained, lost, images)
    difference = (gained - lost) / images
    variance = max(1, gained + lost + 1 - (gained - lost) ** 2 / images) / images**2
    half = stats.norm.ppf(0.975) * math.sqrt(variance)
    assert (low, high) == pytest.approx((difference - half, difference + half))


def test_a_share_at_either_end_has_an_interval_within_0_and_1() -> None:
    for share in (0.0, 1.0):
        low, high = wilson_interval(share, 20)
        assert 0 <= low < high <= 1
    assert wilson_interval(0.0, 20)[0] == pytest.approx(0, abs=1e-12)
    assert wilson_interval(1.0, 20)[1] == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(("left", "right"), [([0.1, 0.4, 0.35], [0.2, 0.3, 0.9]), ([0.5, 0.7], [0.61, 0.42])])
def test_fixed_values_have_the_intervals_of_scipy(left: list[float], right: list[float]) -> None:
    single = stats.ttest_1samp(left, 0).confidence_interval(0.95)
    paired = stats.ttest_rel(left, right).confidence_interval(0.95)
    for found, expected in ((t_interval(left), single), (paired_interval(left, right), paired)):
        assert found == pytest.approx((expected.low, expected.high))
    longer = [*right, 0.77]
    welch = stats.ttest_ind(left, longer, equal_var=False).confidence_interval(0.95)
    assert welch_interval(left, longer) == pytest.approx((welch.low, welch.high))
    for right_ones, images in ((0, 20), (7, 20), (20, 20), (3, 4)):
        wilson = stats.binomtest(right_ones, images).proportion_ci(0.95, method="wilson")
        assert wilson_interval(right_ones / images, images) == pytest.approx((wilson.low, wilson.high), abs=1e-12)
