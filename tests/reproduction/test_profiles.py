"""The profile of a run is that of the last epoch before its reference collapsed."""

from __future__ import annotations

import math

import pytest
from tests.reproduction.made import epoch, run

from creditscope.reproduction.profiles import carried, carried_by_one, layer_zero_alone, mean_size, share, valid_row
from creditscope.study.spec import RunSpec

ONE = (0.42, 0.006, -0.015, -0.004, -0.004)


@pytest.mark.parametrize(
    ("d2", "last"),
    [
        ((1e-3, 1e-4, 1e-5), 3),
        ((1e-3, 1e-8, 1e-9), 1),
        ((1e-3, 1e-8, 1e-3), 1),  # what comes after a collapse does not count
        ((1e-3, math.nan, 1e-3), 1),
        ((1e-8, 1e-3, 1e-3), None),
    ],
)
def test_the_last_epoch_before_the_reference_collapsed(d2, last):
    made = run(RunSpec(), history=[epoch(number + 1, d2=value, gamma=ONE) for number, value in enumerate(d2)])
    row = valid_row(made)
    assert (None if row is None else row.epoch + 1) == last


def test_a_history_without_alignment_has_no_profile():
    assert valid_row(run(RunSpec())) is None


@pytest.mark.parametrize(
    ("gamma", "left", "one", "zero"),
    [
        (ONE, -0.05, True, True),
        (ONE[::-1], -0.05, True, False),
        ((0.3, 0.3, 0.3), 1.0, False, False),
        ((-0.1, -0.2, -0.3), math.nan, None, None),
        ((0.1, -0.1, 0.0), math.nan, None, None),
        ((math.nan, 0.3, 0.3), math.nan, None, None),
    ],
)
def test_what_is_left_without_the_best_layer(gamma, left, one, zero):
    row = epoch(gamma=gamma)
    assert share(row) == pytest.approx(left, abs=0.01, nan_ok=True)
    assert (carried_by_one(row), layer_zero_alone(row)) == (one, zero)
    assert ("no positive mean" in carried(row)) == math.isnan(left)


def test_without_a_valid_epoch_nothing_is_known():
    assert (carried_by_one(None), layer_zero_alone(None), carried(None)) == (None, None, "no valid epoch")
    assert math.isnan(share(None))
    assert math.isnan(mean_size(None, 2))


def test_sizes_are_averaged_without_their_sign():
    assert mean_size(epoch(gamma=(9.0, 9.0, 0.3, -0.3)), 2) == pytest.approx(0.3)
