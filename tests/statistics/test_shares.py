"""Shares lie between 0 and 1; whether NaN passes is the caller's choice."""

from __future__ import annotations

import math
from typing import Any

import pytest

from creditscope.errors import InvalidInput
from creditscope.statistics.shares import checked_shares


def test_shares_pass_as_floats() -> None:
    assert checked_shares([0, 0.25, 1], "accuracy") == (0.0, 0.25, 1.0)


@pytest.mark.parametrize("value", [31, -0.1, math.inf, -math.inf, math.nan])
def test_a_number_that_is_no_share_is_refused(value: float) -> None:
    with pytest.raises(InvalidInput, match=r"accuracy = .* is not a share between 0 and 1\.\nD3"):
        checked_shares([0.5, value], "accuracy")


def test_a_percentage_is_answered_with_the_share_that_was_meant() -> None:
    with pytest.raises(InvalidInput, match=r"Did you mean 0\.31\?"):
        checked_shares([31], "accuracy")


@pytest.mark.parametrize("value", [True, "0.3", None, [0.3]])
def test_what_is_not_a_number_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match=r"accuracy = .* is not a number\.\n"):
        checked_shares([value], "accuracy")


def test_nan_passes_only_where_it_may_be_measured() -> None:
    (share,) = checked_shares([math.nan], "accuracy", nan=True)
    assert math.isnan(share)
    with pytest.raises(InvalidInput, match="accuracy = inf"):
        checked_shares([math.inf], "accuracy", nan=True)


@pytest.mark.parametrize(
    ("value", "hint"), [(1.01, "Did you mean 0.0101"), (100, "Did you mean 1?"), (100.5, "Pass the")]
)
def test_what_cannot_be_a_percentage_has_no_such_hint(value: float, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        checked_shares([value], "accuracy")
    assert hint in str(caught.value)


def test_a_number_beyond_float_is_refused_and_infinity_is_no_percentage() -> None:
    with pytest.raises(InvalidInput, match="is not a number"):
        checked_shares([10**400], "accuracy")
    with pytest.raises(InvalidInput, match="Pass the share"):
        checked_shares([-1], "accuracy")
