"""Numbers per layer reduced to one, against what is written down."""

from __future__ import annotations

import math

import pytest

from creditscope.statistics.layers import deep, deep_mean, inexact, leave_best_out_ratio, mean, spread, z_score

VALUES = [0.9, 0.1, 0.2, 0.6]


def test_the_mean_of_nothing_is_undefined() -> None:
    assert mean(VALUES) == pytest.approx(0.45)
    assert math.isnan(mean([]))
    assert math.isnan(mean([0.1, math.nan]))


def test_exact_layers_are_left_out_unless_nothing_else_is_left() -> None:
    assert inexact(VALUES, {1, 3}) == [0.9, 0.2]
    assert deep(VALUES) == [0.1, 0.2, 0.6]
    assert deep(VALUES, {0, 3}) == [0.1, 0.2]
    assert deep(VALUES, {1, 2, 3}) == [0.1, 0.2, 0.6]
    assert deep_mean(VALUES, {3}) == pytest.approx(0.15)
    assert math.isnan(deep_mean([0.9]))


def test_a_z_score_counts_standard_deviations_of_the_draws() -> None:
    assert spread([1.0, 2.0, 3.0]) == 1.0
    assert spread([1.0, 2.0]) == pytest.approx(math.sqrt(0.5))
    assert z_score(10.0, [2.0, 4.0, 6.0]) == 3.0
    assert z_score(-2.0, [2.0, 4.0, 6.0]) == -3.0


@pytest.mark.parametrize("draws", [[], [1.0], [2.0, 2.0], [1.0, math.nan], [1.0, math.inf]])
def test_draws_without_a_spread_give_no_score(draws: list[float]) -> None:
    assert math.isnan(z_score(1.0, draws)) if draws else math.isnan(spread(draws))


def test_the_largest_value_is_the_one_left_out() -> None:
    assert leave_best_out_ratio(VALUES) == pytest.approx(0.3 / 0.45)
    assert leave_best_out_ratio([0.2, 0.8]) == pytest.approx(0.2 / 0.5)
    assert leave_best_out_ratio([0.5] * 4) == 1.0
