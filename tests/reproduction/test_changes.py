"""A run that is done again has the same bits, or the table says by how much it moved, against the seeds' interval."""

from __future__ import annotations

import math

import pytest
from tests.reproduction.made import line, sheet

from creditscope.errors import BadFile
from creditscope.intervals import t_interval
from creditscope.reproduction.changes import Change, changes, read_sheet, told

KEYS = ("a" * 16, "b" * 16, "c" * 16)
VALUES = (0.300, 0.305, 0.310)


def tables(before, now, kind="share", keys=KEYS):
    old, new = (line(values=values, keys=keys[: len(values)], kind=kind) for values in (before, now))
    return sheet(old), sheet(new)


def moved(before, now, kind="share") -> Change:
    same, found = changes(*tables(before, now, kind))
    assert same == len(before) - 1
    (change,) = found
    return change


def test_the_same_numbers_are_the_same_to_the_last_bit():
    assert changes(*tables(VALUES, VALUES)) == (3, [])
    assert told(*changes(*tables(VALUES, VALUES))) == "All 3 numbers of earlier runs are the same, to the last bit."
    assert moved(VALUES, (math.nextafter(0.3, 1), *VALUES[1:])).key == KEYS[0]


def test_a_number_that_is_none_is_the_same_as_itself():
    assert changes(*tables((math.nan, math.inf), (math.nan, math.inf))) == (2, [])


@pytest.mark.parametrize(("end", "beyond"), [(0, -1e-6), (1, 1e-6)])
def test_a_moved_number_is_held_against_the_interval_of_the_seeds_before(end, beyond):
    edge = t_interval(VALUES)[end]
    assert moved(VALUES, (edge - beyond, *VALUES[1:])).inside is True
    outside = moved(VALUES, (edge + beyond, *VALUES[1:]))
    assert outside.inside is False
    assert "OUTSIDE the seeds' 95 % interval" in told(2, [outside])


def test_scales_are_held_against_the_interval_of_their_logarithms():
    before = (1e6, 1e7, 1e8)
    low, high = t_interval([math.log(value) for value in before])
    assert moved(before, (math.exp(high) * 0.99, *before[1:]), "scale").inside is True
    assert moved(before, (math.exp(high) * 1.01, *before[1:]), "scale").inside is False
    assert moved(before, (math.exp(low) * 0.99, *before[1:]), "scale").inside is False


@pytest.mark.parametrize(
    ("before", "now", "kind"),
    [
        ((0.3,), (0.31,), "share"),
        ((0.3, math.nan), (0.31, math.nan), "share"),
        ((4.0, math.inf), (math.inf, math.inf), "count"),
        ((1e-9, 1e-8), (0.0, 1e-8), "scale"),
    ],
)
def test_without_an_interval_none_is_claimed(before, now, kind):
    change = moved(before, now, kind)
    assert change.inside is None
    assert "(no interval over seeds)" in told(0, [change])


def test_the_words_name_row_quantity_run_and_both_numbers():
    change = moved(VALUES, (0.301, *VALUES[1:]))
    assert told(2, [change]).splitlines() == [
        "Not those of the table before: 1 of 3 numbers",
        f"  dfa, accuracy, run {KEYS[0]}: 0.3 before, 0.301 now (inside the seeds' 95 % interval)",
    ]


def test_a_move_that_six_digits_do_not_show_is_told_by_its_size():
    change = moved(VALUES, (VALUES[0] * (1 + 2e-15), *VALUES[1:]))
    assert "now 2e-15 of it away, in the last digits" in told(2, [change])


def test_runs_and_rows_that_only_one_table_has_are_not_compared():
    before, now = tables(VALUES[:2], VALUES)
    assert changes(before, now) == (2, [])
    assert changes(before, sheet(line(row="fa", values=VALUES, keys=KEYS))) == (0, [])
    assert told(0, []) == ""


def test_a_number_made_of_several_runs_belongs_to_none_of_them():
    before, now = (sheet(line(values=(number,), keys=KEYS)) for number in (3.0, 2.0))
    assert changes(before, now) == (0, [])


def test_a_table_survives_its_file_and_anything_else_is_refused(tmp_path):
    made = sheet(line(values=(0.3, math.nan, math.inf), keys=KEYS))
    path = tmp_path / "wide.json"
    assert read_sheet(path) is None
    path.write_text(made.to_json(), encoding="utf-8")
    assert read_sheet(path).to_json() == made.to_json()
    for text in ("{}", "no JSON", made.to_json().replace('"schema_version": 1', '"schema_version": 2')):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BadFile, match="is no table of a reproduction"):
            read_sheet(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadFile, match="cannot be read"):
        read_sheet(path)
