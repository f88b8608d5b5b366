"""Numbers are written as people read them, and a table is the same in text and in Markdown."""

from __future__ import annotations

import math

import pytest
from tests.papers.made import figure, row, table

from creditscope.papers.rendering import (
    agreement_counts,
    difference,
    limit_in_full,
    number,
    ours,
    published,
    table_caption,
    table_files,
    table_markdown,
    table_text,
    theirs,
)


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (0.3061, "share", "30.6 %"),
        (-0.0251, "cosine", "-0.025"),
        (4.98e-05, "cosine", "5e-05"),
        (0.0, "cosine", "0"),
        (4e8, "scale", "4e+08"),
        (203.4, "scale", "203"),
        (1e-9, "scale", "1e-09"),
        (22.4, "points", "+22.4"),
        (8.0, "count", "8"),
        (math.inf, "epoch", "not fired"),
        (math.inf, "scale", "infinite"),
        (math.nan, "share", "undefined"),
    ],
)
def test_a_number_of_a_kind(value, kind, text):
    assert number(value, kind) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"values": (0.3,)}, "30.0 %"),
        ({"values": (0.29, 0.30, 0.31)}, "30.0 % ± 1.0 (3 seeds)"),
        ({"values": (0.1, 0.2), "kind": "cosine"}, "+0.150 ± 0.071 (2 seeds)"),
        ({"values": (-0.0014, -0.0013, -0.0014), "kind": "size"}, "-0.001367 ± 0.000058 (3 seeds)"),
        ({"values": (4e-8, 6e-8), "kind": "size"}, "5e-08 ± 1.4e-08 (2 seeds)"),
        ({"values": (0.4021, 0.4022)}, "40.22 % ± 0.01 (2 seeds)"),
        ({"values": (1.0, 1.0), "kind": "cosine"}, "+1.000 ± 0 (2 seeds)"),
        ({"values": (1e6, 1e8), "kind": "scale"}, "1e+07 (1e+06 to 1e+08)"),
        ({"values": (0.0, 2.0), "kind": "scale"}, "1 ± 1.41 (2 seeds)"),
        ({"values": (8.0, math.inf, 9.0), "kind": "epoch"}, "8, not fired, 9"),
        ({"values": (8.0, 11.0), "kind": "count"}, "8, 11"),
        ({"values": (math.nan, 0.3)}, "undefined, 30.0 %"),
        ({"texts": ("none", "none"), "kind": "flags"}, "none"),
        ({"texts": ("none", "(a)"), "kind": "flags"}, "none, (a)"),
        ({"values": (3.0,), "texts": ("dfa, ep",), "kind": "count"}, "3: dfa, ep"),
        ({}, "-"),
    ],
)
def test_our_numbers(fields, text):
    assert ours(row(**fields)) == text


@pytest.mark.parametrize(
    ("shown", "kind", "text"),
    [
        (None, "share", "-"),
        (figure(mean=0.3, std=0.008), "share", "30 % ± 0.8"),
        (figure(mean=0.33), "cosine", "+0.33"),
        (figure(low=3e3, high=8e3), "scale", "3000 to 8000"),
        (figure(high=4e-9), "scale", "at most 4e-09"),
        (figure(mean=1.4e-6, images=1024), "scale", "1.1e-05 (1.4e-06 at N = 1,024)"),
        (figure(values=(8, 11, 8)), "count", "8, 11, 8"),
        (figure(never=True), "epoch", "never"),
        (figure(flags=("(a)", "(b)")), "flags", "(a) (b)"),
        (figure(flags=()), "flags", "none"),
        (figure(), "share", "-"),
    ],
)
def test_a_published_figure(shown, kind, text):
    assert published(shown, kind) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"difference": -0.034}, "-3.4 pp"),
        ({"difference": 0.0004}, "+0.04 pp"),
        ({"difference": -0.004, "kind": "scale"}, "-0.004 decades"),
        ({"difference": 0.5, "kind": "scale"}, "+0.50 decades"),
        ({"difference": -2.0, "kind": "count"}, "-2"),
        ({"difference": math.inf}, ""),
        ({}, ""),
    ],
)
def test_a_difference_in_its_unit(fields, text):
    assert difference(row(**fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {
                "limit": 0.042,
                "basis": "no published spread, ours stands for both",
                "standard_error": 0.01,
                "freedom": 2.0,
            },
            "4.2 pp = 4.2 × s.e. 1.0 pp, 2 d.f.: no published spread, ours stands for both",
        ),
        ({"limit": 0.02, "basis": "no spread, fixed tolerance"}, "2.0 pp: no spread, fixed tolerance"),
        ({"kind": "size", "basis": "no spread, fixed tolerance"}, "0.5 decades: no spread, fixed tolerance"),
        (
            {"limit": 0.05, "basis": "rounding of the printed figure", "standard_error": 0.01, "freedom": 2.0},
            "5.0 pp: rounding of the printed figure",
        ),
        ({"limit": 0.0, "kind": "count", "basis": "no spread, fixed tolerance"}, ""),
        ({}, ""),
    ],
)
def test_the_limit_with_its_standard_error_and_what_it_rests_on(fields, text):
    assert limit_in_full(row(difference=0.01, **fields)) == text


def test_agreements_are_counted_in_their_order():
    found = tuple(row(agreement=agreement) for agreement in ("not run", "agrees", "differs", "agrees"))
    assert agreement_counts(found) == "agrees: 2, differs: 1, not run: 1"


# --- tables ---

KEYS = ("0123456789abcdef", "fedcba9876543210")
ROW = row(
    row="dfa|x",
    values=(0.30, 0.31),
    keys=KEYS,
    missing=(456,),
    published=figure(mean=0.4, std=0.01),
    agreement="differs",
    difference=-0.095,
    limit=0.034,
    basis="spreads of both sides",
    standard_error=0.01,
    freedom=3.0,
    note="a note",
)
TABLE = table(
    ROW,
    row(row="dfa|x", quantity="growth", heading="growth", kind="scale", values=(7e3,), keys=KEYS[:1]),
    row(row="fa", agreement="not run"),
)


def test_the_caption_says_what_both_sides_were_trained_with():
    assert table_caption(TABLE) == (
        "Experiment 2, speed. Ours: 5 epochs, seed 42 (budget laptop); published: 100 epochs, 3 seeds."
    )
    assert table_caption(table(theirs="")).endswith("not published.")


def test_markdown_links_every_number_to_the_records_of_its_runs():
    rows = [row for row in table_markdown(TABLE).splitlines() if row.startswith("| dfa")]
    for key in KEYS:
        assert f"[{key[:6]}](../records/{key}.json)" in rows[0]
    assert KEYS[1] not in rows[1]
    assert f"(elsewhere/{KEYS[0]}.json)" in table_markdown(TABLE, "elsewhere")


def test_markdown_states_verdict_difference_note_and_missing_seeds():
    shown = table_markdown(TABLE)
    assert "| dfa\\|x | accuracy | 30.5 % ± 0.7 (2 seeds) | 40 % ± 1 | -9.5 pp | " in shown
    assert "| 3.4 pp = 3.4 × s.e. 1.0 pp, 3 d.f.: spreads of both sides | **differs** |" in shown
    assert "a note; seeds not run: 456" in shown
    assert "| fa | accuracy | - | - |  |  | not run |  |  |" in shown
    assert "differs: 1, not published: 1, not run: 1." in shown


def test_text_states_the_same_within_its_width():
    shown = table_text(TABLE, 100)
    assert max(map(len, shown.splitlines())) <= 100
    cells = {line.split("  ")[0].strip(): line for line in shown.splitlines()}
    assert "30.5 % ± 0.7" in cells["dfa|x"]
    assert "40 % ± 1" in cells["dfa|x"]
    assert cells["dfa|x"].endswith("DIFFERS")
    assert "(seeds not run:" in shown
    assert shown.endswith("differs: 1, not published: 1, not run: 1.")
    assert max(map(len, table_text(TABLE, 80).splitlines())) <= 80


def test_the_files_of_a_table_are_its_markdown_and_its_json():
    assert table_files(TABLE, "kept") == {
        "speed.md": table_markdown(TABLE, "kept"),
        "speed.json": TABLE.to_json(),
    }


def test_a_published_angle_has_its_unit():
    angle = row(kind="degrees", published=figure(mean=63.4), values=(36.0,))
    assert (theirs(angle), ours(angle)) == ("63.4°", "36.0°")
    assert theirs(row(kind="degrees")) == "-"
    assert theirs(row(kind="share", published=figure(mean=0.5))) == "50 %"


def test_flags_that_differ_between_seeds_stand_with_their_seeds():
    flags = row(kind="flags", texts=("(a) (b)", "none", "(a) (b)"), seeds=(42, 123, 456))
    assert ours(flags) == "(a) (b) on seeds 42, 456; none on seed 123"
    assert ours(row(kind="flags", texts=("none", "none"), seeds=(42, 123))) == "none"
    assert ours(row(kind="flags", texts=("none", "(a)"))) == "none, (a)"
