"""Several seeds together: textbook intervals, and the number of seeds at which an interval leaves the limit out."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from creditscope.statistics.seeds import seeds_to_settle, spread

shares = st.lists(st.floats(0, 1), min_size=2, max_size=6)


@given(values=shares)
def test_the_spread_is_scipys(values):
    found = spread(values)
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert found.std == pytest.approx(statistics.stdev(values))
    half = stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    assert found.interval == pytest.approx((found.mean - half, found.mean + half))


def test_one_seed_has_wilsons_interval_over_its_images_and_no_spread():
    found = spread([0.8], images=100)
    assert found.std is None
    expected = stats.binomtest(80, 100).proportion_ci(method="wilson")
    assert found.interval == pytest.approx((expected.low, expected.high))
    assert spread([0.8]).interval is None


def test_a_spread_over_something_that_is_not_a_number_is_none_either():
    found = spread([0.5, math.nan])
    assert math.isnan(found.std)
    assert all(math.isnan(end) for end in found.interval)


@given(differences=st.lists(st.floats(-10, 10), min_size=2, max_size=6), limit=st.floats(-5, 5))
def test_so_many_seeds_settle_it_and_one_fewer_does_not(differences, limit):
    assume(statistics.stdev(differences) > 1e-3)
    n = seeds_to_settle(differences, limit)
    distance, s = abs(statistics.fmean(differences) - limit), statistics.stdev(differences)

    def half(count):
        return stats.t.ppf(0.975, count - 1) * s / math.sqrt(count)

    if n is None:
        assert half(1000) >= distance
    else:
        assert half(n) < distance
        assert n == 2 or half(n - 1) >= distance


def test_one_seed_says_nothing_about_how_many_more_are_needed():
    assert seeds_to_settle([1.0], 2.0) is None
    assert seeds_to_settle([1.0, math.nan], 2.0) is None
