"""Limits between two groups, and the exact bound of a proportion."""

from __future__ import annotations

import math

import pytest
from scipy.stats import binom

from creditscope.errors import InvalidInput
from creditscope.statistics.calibration import gap
from creditscope.statistics.intervals import binomial_bound


@pytest.mark.parametrize("fires", ["above", "below"])
def test_the_middle_of_a_gap_is_as_many_decades_from_one_end_as_from_the_other(fires: str) -> None:
    low, high = [1e-9, 3e-5], [0.02, 7.0]
    found = gap(low, high, "above") if fires == "above" else gap(high, low, "below")
    assert {found.sound, found.broken} == {3e-5, 0.02}
    assert math.log10(found.middle / 3e-5) == pytest.approx(math.log10(0.02 / found.middle))
    assert found.decades == pytest.approx(2 * math.log10(found.middle / 3e-5))


def test_a_broken_end_of_zero_leaves_a_gap_without_end() -> None:
    assert gap([0.1], [0.0], "below").decades == math.inf


def test_groups_that_overlap_have_a_gap_of_less_than_nothing_and_decide_nothing() -> None:
    assert gap([1.0, 100.0], [50.0], "above").decades == pytest.approx(-math.log10(2))
    assert gap([1.0, 100.0], [2.0], "below").decades == pytest.approx(-math.log10(2))
    assert gap([0.0, 100.0], [2.0], "below").decades == -math.inf
    assert not gap([1.0, 100.0], [50.0], "above").decides


def test_a_gap_decides_from_a_decade_on() -> None:
    assert gap([1.0], [0.1], "below").decides
    assert not gap([1.0], [0.11], "below").decides


@pytest.mark.parametrize("values", [[], [math.nan], [-1.0]])
def test_a_group_without_numbers_is_refused(values: list[float]) -> None:
    with pytest.raises(InvalidInput, match="values of the broken networks"):
        gap([1.0], values, "above")


@pytest.mark.parametrize(("hits", "trials"), [(0, 40), (1, 40), (3, 66), (39, 40)])
def test_at_the_bound_so_few_hits_have_a_probability_of_five_percent(hits: int, trials: int) -> None:
    assert binom.cdf(hits, trials, binomial_bound(hits, trials)) == pytest.approx(0.05, rel=1e-9)


def test_no_hits_of_forty_bound_the_share_by_seven_percent() -> None:
    assert binomial_bound(0, 40) == pytest.approx(1 - 0.05 ** (1 / 40))
    assert f"{100 * binomial_bound(0, 40):.1f}" == "7.2"
    assert binomial_bound(40, 40) == 1


def test_two_ends_of_zero_overlap() -> None:
    assert gap([0.0], [0.0], "below").decades == -math.inf
    assert gap([0.0], [1.0], "above").decades == math.inf
    assert gap([1.0], [0.0], "above").decades == -math.inf
    assert gap([1.0], [10.0], "above").decides


def test_groups_that_are_refused_are_named() -> None:
    with pytest.raises(InvalidInput, match=r"values of the sound networks are \[1\.0, 1\.0, 1\.0, 1\.0, 1\.0\]"):
        gap([1.0] * 7 + [-1.0], [1.0], "above")
    with pytest.raises(InvalidInput, match="sound"):
        gap([], [1.0], "below")
