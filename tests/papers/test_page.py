"""A table is the same in text and in Markdown, and every number leads to its runs."""

from __future__ import annotations

from tests.papers.made import figure, line, sheet

from creditscope.papers.page import caption, markdown, text

KEYS = ("0123456789abcdef", "fedcba9876543210")
LINE = line(
    row="dfa|x",
    values=(0.30, 0.31),
    keys=KEYS,
    missing=(456,),
    published=figure(mean=0.4, std=0.01),
    outcome="differs",
    difference=-0.095,
    errors=-12.0,
    note="a note",
)
MADE = sheet(
    LINE,
    line(row="dfa|x", quantity="growth", heading="growth", kind="scale", values=(7e3,), keys=KEYS[:1]),
    line(row="fa", outcome="not run"),
)


def test_the_caption_says_what_both_sides_were_trained_with():
    assert caption(MADE) == (
        "Experiment 2, wide. Ours: 5 epochs, seed 42 (budget laptop); published: 100 epochs, 3 seeds."
    )
    assert caption(sheet(theirs="")).endswith("not published.")


def test_markdown_links_every_number_to_the_records_of_its_runs():
    rows = [row for row in markdown(MADE).splitlines() if row.startswith("| dfa")]
    for key in KEYS:
        assert f"[{key[:6]}](../records/{key}.json)" in rows[0]
    assert KEYS[1] not in rows[1]
    assert f"(elsewhere/{KEYS[0]}.json)" in markdown(MADE, "elsewhere")


def test_markdown_states_verdict_difference_note_and_missing_seeds():
    shown = markdown(MADE)
    assert "| dfa\\|x | accuracy | 30.5 % ± 0.7 (2 seeds) | 40 % ± 1 | -9.5 pp, -12.0 s.e. | **differs** |" in shown
    assert "a note; seeds not run: 456" in shown
    assert "| fa | accuracy | - | - |  | not run |  |  |" in shown
    assert "differs: 1, not published: 1, not run: 1." in shown


def test_text_states_the_same_within_its_width():
    shown = text(MADE, 100)
    assert max(map(len, shown.splitlines())) <= 100
    cells = {line.split("  ")[0].strip(): line for line in shown.splitlines()}
    assert "30.5 % ± 0.7" in cells["dfa|x"]
    assert "40 % ± 1" in cells["dfa|x"]
    assert cells["dfa|x"].endswith("DIFFERS")
    assert "(seeds not run:" in shown
    assert shown.endswith("differs: 1, not published: 1, not run: 1.")
    assert max(map(len, text(MADE, 80).splitlines())) <= 80
