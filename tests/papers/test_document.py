"""The page states what the records say of every claim, and nothing that they do not say."""

from __future__ import annotations

import pytest
from tests.papers.made import EXPLODED, HEALTHY, book, run

from creditscope.papers.book import Book
from creditscope.papers.document import document
from creditscope.papers.experiments import in_order, sheets
from creditscope.papers.findings import FINDINGS
from creditscope.papers.statements import STATEMENTS
from creditscope.records.run import RunRecord
from creditscope.report.markdown import escaped
from creditscope.runs.spec import RunSpec


def published_form(spec: RunSpec) -> RunRecord | None:
    """BP is healthy, DFA explodes and is no better than frozen."""
    if spec.control != "none":
        return run(spec, 0.35)
    return run(spec, 0.30, EXPLODED) if spec.method == "dfa" else run(spec, 0.60)


def opposite(spec: RunSpec) -> RunRecord | None:
    return run(spec, 0.35) if spec.control != "none" else run(spec, 0.60, HEALTHY if spec.method == "dfa" else EXPLODED)


def row_of(page: str, statement: str) -> list[str]:
    (row,) = [line for line in page.splitlines() if line.startswith(f"| {escaped(statement)} |")]
    return [cell.strip() for cell in row.strip("|").split(" | ")]


BOOKS = {
    "nothing": book(),
    "published form": book(published_form, "main_audit"),
    "opposite": book(opposite, "main_audit"),
}
PAGES = {name: document(made) for name, made in BOOKS.items()}


@pytest.mark.parametrize("name", BOOKS)
def test_every_claim_stands_with_its_computed_outcome(name):
    for claim in (*STATEMENTS, *FINDINGS):
        answer = claim.ask(BOOKS[name])
        cells = row_of(PAGES[name], claim.statement)
        assert cells[1] == f"**{answer.standing}**"
        assert cells[2] == escaped(answer.because)
        assert all(f"../results/records/{key}.json" in cells[-1] for key in answer.keys)


def test_the_outcome_changes_with_the_records():
    claim = "DFA is below its frozen twin"
    assert [row_of(page, claim)[1] for page in PAGES.values()] == ["**undecided**", "**holds**", "**fails**"]


def test_findings_that_do_not_hold_are_called_not_confirmed():
    page = PAGES["published form"]
    above, _, below = page.partition("Looked for, and not confirmed")
    for claim in FINDINGS:
        holds = claim.ask(BOOKS["published form"]).standing == "holds"
        assert (escaped(claim.statement) in above) == holds
        assert (escaped(claim.statement) in below) == (not holds)
    assert "None of our expectations is confirmed yet." in PAGES["nothing"]


def test_what_differs_is_listed_with_its_reason_and_nothing_else_is():
    (_, _, listed) = PAGES["published form"].partition("## What differs")
    own = [one for one in sheets(BOOKS["published form"]) if one.experiment != "learning_rate"]
    differing = [line for one in own for line in one.lines if line.outcome == "differs"]
    assert differing
    assert listed.count("\n| [") == len(differing)
    assert "Nothing that was run differs." in PAGES["nothing"]


def test_every_experiment_is_in_the_overview_with_its_counts():
    rows = [line for line in PAGES["nothing"].splitlines() if "../results/tables/" in line and line[2].isdigit()]
    assert len(rows) == len(in_order())
    assert all(row.endswith(f"| 0 | 0 | 0 | {len(one.lines)} |") for row, one in zip(rows, sheets(book()), strict=True))


def test_verdicts_of_the_main_audit_are_shown_per_seed_and_over_seeds():
    (row,) = [line for line in PAGES["published form"].splitlines() if line.startswith("| dfa | 30.0 % | 35.0 % |")]
    assert "42: FAIL(D1+D2+D3); 123: FAIL(D1+D2+D3); 456: FAIL(D1+D2+D3) | **FAIL(D1+D2+D3)**" in row


def test_runs_of_the_published_length_have_a_table_of_their_own():
    made = book(run, "random_init")
    assert [one.stem for one in sheets(made)] == [one.name for one in in_order()]  # untrained is the same in both
    longer = Book(book(run, "cnn", budget="paper").store)
    found = {one.stem: one for one in sheets(longer)}
    assert [name for name in found if name.endswith("-paper")] == ["cnn-paper"]
    assert found["cnn-paper"].ours == "100 epochs, seeds 42, 123, 456; DFA with index = output"
    assert found["cnn"].ours == "3 epochs, seed 42; DFA with index = output"
    assert all(line.outcome == "not run" for line in found["cnn"].lines)
    assert "[cnn-paper](../results/tables/cnn-paper.md)" in document(longer)


def test_verdicts_of_runs_of_the_published_length_stand_apart():
    assert "Trained as long as published" not in PAGES["published form"]
    page = document(Book(book(published_form, "main_audit", budget="paper").store))
    (_, _, longer) = page.partition("Trained as long as published, 100 epochs:")
    assert "| dfa | 30.0 % | 35.0 % |" in longer.partition("## The experiments")[0]


def test_a_verdict_that_rests_on_fewer_twins_than_seeds_says_so():
    def one_twin(spec: RunSpec) -> RunRecord | None:
        return None if spec.control != "none" and spec.seed != 42 else published_form(spec)

    page = document(book(one_twin, "main_audit"))
    (row,) = [line for line in page.splitlines() if line.startswith("| bp | 60.0 % |")]
    assert "| +25.0 (1 of 3 seeds) |" in row
    assert "**PASS** (one seed)" in row


def test_drift_is_named_though_the_verdicts_only_advise_of_it():
    def drifting(spec: RunSpec) -> RunRecord | None:
        return run(spec, 0.60, {**HEALTHY, "D4": 0.7 if spec.method == "state_bridge" else 0.1})

    told = "- Flag (c), drift, which the verdicts above only advise of: state\\_bridge on 42, 123, 456."
    assert told in document(book(drifting, "main_audit"))
    assert "Flag (c)" not in PAGES["published form"]


def test_rates_that_are_only_tried_are_not_listed_as_differences():
    """Their figures are those of other experiments, which list what differs at the stated rate."""
    made = book(lambda spec: run(spec, 0.9), "learning_rate")
    assert any(line.outcome == "differs" for one in sheets(made) if one.stem == "learning_rate" for line in one.lines)
    _, _, differences = document(made).partition("## What differs")
    assert "[learning" not in differences
