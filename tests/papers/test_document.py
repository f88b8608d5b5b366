"""The page states what the records say of every claim, and nothing that they do not say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.papers.made import CLAIM, EXPLODED, MADE, archive, run

from creditscope.papers.document import document
from creditscope.papers.tables import comparison_tables
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec


def as_published(spec: RunSpec) -> RunRecord | None:
    """BP is healthy, DFA explodes and is no better than frozen."""
    if spec.control != "none":
        return run(spec, 0.35)
    return run(spec, 0.30, EXPLODED) if spec.method == "dfa" else run(spec, 0.60)


ARCHIVES = {
    "nothing": archive(MADE),
    "as published": archive(MADE, as_published, "speed"),
    "opposite": archive(MADE, lambda spec: run(spec, 0.2 if spec.method == "bp" else 0.5), "speed"),
}
PAGES = {name: document(made) for name, made in ARCHIVES.items()}
STATUS = {"nothing": "undecided", "as published": "holds", "opposite": "fails"}


def rows_of(page: str, beginning: str) -> list[str]:
    return [line for line in page.splitlines() if line.startswith(beginning)]


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_claim_stands_with_its_computed_status(name):
    answer = CLAIM.ask(ARCHIVES[name])
    claimed, found = rows_of(PAGES[name], f"| {CLAIM.statement} |")
    assert claimed == found
    assert f"| **{STATUS[name]}** | {answer.because} | [speed](../results/tables/speed.md) |" in claimed
    assert all(f"../results/records/{key}.json" in claimed for key in answer.keys)


def test_findings_that_do_not_hold_are_called_not_confirmed():
    assert "Expected, but not confirmed" not in PAGES["as published"]
    assert "Expected, but not confirmed by the records so far:" in PAGES["opposite"]
    assert "None of our expectations is confirmed yet." in PAGES["opposite"]


def test_what_differs_is_listed_with_its_reason_and_nothing_else_is():
    (_, _, listed) = PAGES["opposite"].partition("## What differs")
    own = [table for table in comparison_tables(ARCHIVES["opposite"]) if table.experiment == "speed"]
    differing = [row for table in own for row in table.rows if row.agreement == "differs"]
    assert differing
    assert listed.count("\n| [") == len(differing)
    assert "First. Ours: 5 epochs; theirs: 10 epochs." in listed
    assert "No number differs so far." in PAGES["nothing"]


def test_a_table_that_borrows_its_figures_is_named_and_not_listed():
    page = document(archive(MADE, lambda spec: run(spec, 0.9), "speed", "size"))
    (_, _, listed) = page.partition("## What differs")
    assert "Not listed: size, whose published figures belong to the experiments below." in listed
    assert "[size]" not in listed


def test_every_experiment_is_in_the_overview_with_its_counts():
    rows = [line for line in PAGES["nothing"].splitlines() if "../results/tables/" in line and line[2].isdigit()]
    tables = list(comparison_tables(ARCHIVES["nothing"]))
    assert len(rows) == len(tables) == 2
    assert all(row.endswith(f"| 0 | 0 | 0 | {len(one.rows)} |") for row, one in zip(rows, tables, strict=True))


def test_verdicts_are_shown_per_seed_and_over_seeds_beside_the_published_row():
    (row,) = rows_of(PAGES["as published"], "| dfa | 30.0 % | 35.0 % |")
    assert "1: FAIL(D1+D2+D3); 2: FAIL(D1+D2+D3); 3: FAIL(D1+D2+D3) | **FAIL(D1+D2+D3)**" in row
    assert "| 30 % ± 1 | (x) (y) |" in row


def test_flags_that_are_not_the_published_ones_and_remarks_stand_below():
    page = PAGES["opposite"]
    assert "- bp: of flags (x), (y) ours raises (y), published none. First. Ours: 5 epochs" in page
    assert "\n- A remark.\n" in page


def test_verdicts_of_runs_of_the_published_length_stand_apart():
    assert "Trained as long as published" not in PAGES["as published"]
    longer = replace(archive(MADE, as_published, "speed", budget="paper"), budget="laptop")
    (_, _, section) = document(longer).partition("Trained as long as published, 10 epochs:")
    assert "| dfa | 30.0 % | 35.0 % |" in section.partition("## The experiments")[0]


def test_a_verdict_that_rests_on_fewer_controls_than_seeds_says_so():
    def one_control(spec: RunSpec) -> RunRecord | None:
        return None if spec.control != "none" and spec.seed != 1 else as_published(spec)

    (row,) = rows_of(document(archive(MADE, one_control, "speed")), "| bp | 60.0 % |")
    assert "| +25.0 (1 of 3 seeds) |" in row
    assert "**PASS** (one seed)" in row


def test_a_paper_without_verdicts_has_no_such_section():
    page = document(archive(replace(MADE, verdicts=None), as_published, "speed"))
    assert "Our verdicts" not in page
    assert page.startswith("# An Invented Paper, reproduced\n")
    assert "Words of the invented paper." in page
