"""A run that is done again has the same bits, or the table says by how much it moved, against the seeds' interval."""

from __future__ import annotations

import json
import math

import pytest
from tests.papers.made import row, table

from creditscope.errors import BadFile
from creditscope.papers.changes import Change, Changes, changes, changes_text, read_table
from creditscope.statistics.intervals import t_interval

KEYS = ("a" * 16, "b" * 16, "c" * 16)
VALUES = (0.300, 0.305, 0.310)


def tables(before, now, kind="share", keys=KEYS):
    old, new = (row(values=values, keys=keys[: len(values)], kind=kind) for values in (before, now))
    return table(old), table(new)


def moved(before, now, kind="share") -> Change:
    found = changes(*tables(before, now, kind))
    assert (found.same, found.new) == (len(before) - 1, 0)
    (change,) = found.moved
    return change


def in_words(change: Change, same: int = 2) -> str:
    return changes_text(Changes(same, 0, (change,)))


def test_the_same_numbers_are_the_same_to_the_last_bit():
    found = changes(*tables(VALUES, VALUES))
    assert found == Changes(3, 0, ())
    assert changes_text(found) == "All 3 numbers are identical to the previous table, to the last bit."
    assert moved(VALUES, (math.nextafter(0.3, 1), *VALUES[1:])).keys == KEYS[:1]


def test_a_number_that_is_none_is_the_same_as_itself():
    assert changes(*tables((math.nan, math.inf), (math.nan, math.inf))) == Changes(2, 0, ())


@pytest.mark.parametrize(("end", "beyond"), [(0, -1e-6), (1, 1e-6)])
def test_a_moved_number_is_held_against_the_interval_of_the_seeds_before(end, beyond):
    edge = t_interval(VALUES)[end]
    assert moved(VALUES, (edge - beyond, *VALUES[1:])).inside is True
    outside = moved(VALUES, (edge + beyond, *VALUES[1:]))
    assert outside.inside is False
    assert "OUTSIDE the seeds' 95 % interval" in in_words(outside)


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
    assert "(no interval over seeds)" in in_words(change, 0)


def test_the_words_name_row_quantity_run_and_both_numbers():
    change = moved(VALUES, (0.301, *VALUES[1:]))
    assert in_words(change).splitlines() == [
        "1 of 3 numbers differ from the previous table.",
        f"  dfa, accuracy, run {KEYS[0]}: 0.3 before, 0.301 now (inside the seeds' 95 % interval)",
    ]


def test_a_move_that_six_digits_do_not_show_is_described_by_its_size():
    change = moved(VALUES, (VALUES[0] * (1 + 2e-15), *VALUES[1:]))
    assert "relative change 2e-15 now" in in_words(change)


def test_what_the_table_before_does_not_have_is_counted_as_new_and_never_as_the_same():
    before, now = tables(VALUES[:2], VALUES)
    assert changes(before, now) == Changes(2, 1, ())
    assert changes_text(changes(before, now)).endswith("to the last bit. 1 new.")
    assert changes(before, table(row(row="fa", values=VALUES, keys=KEYS))) == Changes(0, 3, ())
    assert changes_text(Changes(0, 3, ())) == ""


def test_a_number_or_a_word_made_of_several_runs_is_compared_as_a_whole():
    before, now = (table(row(values=(number,), keys=KEYS)) for number in (3.0, 2.0))
    (change,) = changes(before, now).moved
    assert (change.was, change.now, change.inside) == ((3.0,), (2.0,), None)
    assert "over 3 runs: 3 before, 2 now" in in_words(change)
    before, now = (table(row(texts=(word,), keys=KEYS)) for word in ("dfa", "nobody"))
    assert changes(before, now).moved
    other = table(row(texts=("dfa",), keys=KEYS[:2]))
    assert changes(before, other) == Changes(0, 1, ())  # of other runs


def test_flags_are_compared_seed_by_seed():
    """A frozen control that learnt otherwise moves a flag, though no run of the method did."""
    before, now = (table(row(texts=("(a) (d)", flags), keys=KEYS[:2])) for flags in ("(d)", "none"))
    (change,) = changes(before, now).moved
    assert (change.keys, change.was, change.now) == (KEYS[1:2], ("(d)",), ("none",))


def test_a_table_survives_its_file_and_anything_else_is_refused(tmp_path):
    made = table(row(values=(0.3, math.nan, math.inf), keys=KEYS))
    path = tmp_path / "wide.json"
    assert read_table(path, "made") is None
    path.write_text(made.to_json(), encoding="utf-8")
    assert read_table(path, "made").to_json() == made.to_json()
    for text in ("no JSON", '{"schema_version": 2}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BadFile, match="is not a creditscope comparison table"):
            read_table(path, "made")
    older = {**json.loads(made.to_json()), "schema_version": 1}
    del older["checksum"]
    for text in ("{}", json.dumps(older)):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(BadFile, match="has schema version (None|1), this creditscope reads 2"):
            read_table(path, "made")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadFile, match="cannot be read"):
        read_table(path, "made")


def test_a_table_of_another_paper_is_not_overwritten(tmp_path):
    path = tmp_path / "speed.json"
    path.write_text(table(row()).to_json(), encoding="utf-8")
    with pytest.raises(BadFile, match="is a table of the paper 'made', not of 'other'"):
        read_table(path, "other")
