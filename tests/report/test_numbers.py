from __future__ import annotations

import csv
import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.report.made import finding, report

from creditscope.report.formats import formats
from creditscope.report.numbers import accuracy, distance, limit, number, per_cent
from creditscope.report.views import from_report
from creditscope.verdict import Limit, Measurement


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_written_within_six_per_cent_and_nine_signs(value):
    text = number(value)
    assert len(text) <= 9
    assert math.isclose(float(text.replace(",", "")), value, rel_tol=0.06)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"), (math.nan, "NaN"), (math.inf, "inf"), (-math.inf, "-inf"), (0.0, "0"), (-0.0, "0"),
        (1.0, "1.00"), (12.34, "12.3"), (99.97, "100"), (9.996, "10.0"), (0.9996, "1.00"), (1234.5, "1,234"),
        (0.123456, "0.123"), (0.01234, "0.012"), (99_999.4, "99,999"), (99_999.6, "1.0e+05"), (2e-10, "2.0e-10"),
    ],
)  # fmt: skip
def test_numbers_keep_their_size_in_sight(value, text):
    assert number(value) == text


@pytest.mark.parametrize(
    ("code", "value", "text"),
    [
        ("D1", 500.0, "10x beyond the limit"),
        ("D1", 5.0, "10x below the limit"),
        ("D2", 1e-9, "100x beyond the limit"),
        ("D3", 1.5, "0.500 pp beyond the limit"),
        ("D4", 0.1, "0.200 below the limit"),
        ("D1", 59.0, "1.2x beyond the limit"),
        ("D2", 4.5e-4, "4,500x above the limit"),
        ("D2", 1.0, "1.0e7x above the limit"),
        ("D1", 1e-300, "5.0e301x below the limit"),
        ("D3", 18.0, "16.0 pp above the limit"),
        ("D2", 0.0, ""),
        ("D1", math.nan, ""),
        ("D0", 3.0, ""),
    ],
)
def test_the_distance_to_a_limit_names_its_unit_and_side(code, value, text):
    assert distance(finding(code, Measurement(value))) == text


def test_several_accuracies_give_mean_and_spread():
    assert accuracy((0.25,)) == "25.0 %"
    assert accuracy((0.24, 0.25, 0.26)) == "25.0 ± 1.0 % over 3 seeds"


def test_per_cent_is_an_accuracy_without_its_sign():
    assert per_cent((0.24, 0.25, 0.26)) == "25.0 ± 1.0"
    for shares in ((0.0885,), (0.087, 0.09)):
        assert accuracy(shares).startswith(per_cent(shares))


@pytest.mark.parametrize(
    ("at", "text"),
    [(1 / 3, "> 1/3"), (50.0, "> 50"), (1e-7, "> 1e-07"), (0.3, "> 0.3"), (0.123456789, "> 0.123457")],
)
def test_a_limit_without_short_decimals_is_a_fraction(at, text):
    assert limit(Limit(at, "above", "it is so")) == text


def test_the_unit_of_a_margin_has_a_column_of_its_own_in_csv():
    view = from_report(report())
    rows = list(csv.DictReader(io.StringIO(formats["csv"].render(view))))
    units = {row["name"]: row["margin_unit"] for row in rows if row["kind"] == "finding"}
    assert (units["D1"], units["D3"]) == ("decades", "points")
    assert "unit" not in rows[0]
