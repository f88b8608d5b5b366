"""Several seeds together: textbook intervals."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from creditscope.statistics.seeds import spread

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


def test_only_a_share_has_an_interval_over_images():
    for share in (0.0, 1.0):
        assert spread([share], images=10).interval is not None
    for other in (-0.01, 1.01, math.nan):
        assert spread([other], images=10).interval is None
    assert spread([0.5], images=10).mean == 0.5
    assert spread([0.5, 0.7]).note == "t over 2 seeds"
    assert spread([0.5], images=1000).note == "single seed; Wilson's interval over 1,000 images"
    assert spread([0.5]).note == "single seed"
