"""The page states what the records say of every claim, and nothing that they do not say."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.papers.made import CLAIM, EXPLODED, MADE, archive, figure, row, run, table

from creditscope.papers.abstract import abstract
from creditscope.papers.archive import RunArchive
from creditscope.papers.document import documents
from creditscope.papers.glance import ComparedNumber, compared_numbers
from creditscope.papers.picture import caption, dots
from creditscope.papers.rendering import Places
from creditscope.papers.tables import comparison_tables
from creditscope.records.run import RunRecord
from creditscope.report.charts.identity import identity_svg
from creditscope.report.charts.theme import PAPER
from creditscope.runs.spec import RunSpec


def as_published(spec: RunSpec) -> RunRecord | None:
    """BP is healthy, DFA explodes and is no better than frozen."""
    if spec.control != "none":
        return run(spec, 0.35)
    return run(spec, 0.30, EXPLODED) if spec.method == "dfa" else run(spec, 0.60)


def pages(made: RunArchive) -> dict[str, str]:
    return documents(made, "made", Places())


def document(made: RunArchive) -> str:
    """Every page of a paper, one after the other."""
    return "\n".join(pages(made).values())


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
    short, claimed, found = rows_of(PAGES[name], f"| {CLAIM.statement} |")
    assert claimed == found
    assert claimed.startswith(short.removesuffix("|").rstrip())
    assert f"| {CLAIM.holds_if} | **{STATUS[name]}** |" in claimed
    assert f"| **{STATUS[name]}** | {answer.because} | [speed](../results/tables/speed.md) |" in claimed
    assert all(f"../results/records/{key}.json" in claimed for key in answer.keys)


def test_findings_that_do_not_hold_are_called_not_confirmed():
    assert "Expected, but not confirmed" not in PAGES["as published"]
    assert "Expected, but not confirmed by the records so far:" in PAGES["opposite"]
    assert "None of our expectations is confirmed yet." in PAGES["opposite"]


def test_what_differs_is_listed_with_its_reason_and_nothing_else_is():
    listed = pages(ARCHIVES["opposite"])["made-differences.md"]
    own = [table for table in comparison_tables(ARCHIVES["opposite"]) if table.experiment == "speed"]
    differing = [row for table in own for row in table.rows if row.agreement == "differs"]
    assert differing
    assert listed.count("\n| [") == len(differing)
    assert "First. Ours: 5 epochs; theirs: 10 epochs." in listed
    assert "No number differs so far." in PAGES["nothing"]


def test_a_table_that_borrows_its_figures_is_named_and_not_listed():
    listed = pages(archive(MADE, lambda spec: run(spec, 0.9), "speed", "size"))["made-differences.md"]
    assert "Not listed: size, whose published figures belong to the experiments below." in listed
    assert "[size]" not in listed


def test_every_experiment_is_in_the_overview_with_its_counts():
    rows = [line for line in PAGES["nothing"].splitlines() if "../results/tables/" in line and line[2].isdigit()]
    tables = list(comparison_tables(ARCHIVES["nothing"]))
    assert len(rows) == len(tables) == 2
    assert all(row.endswith(f"| 0 | 0 | 0 | {len(one.rows)} |") for row, one in zip(rows, tables, strict=True))


def test_verdicts_are_shown_per_seed_and_over_seeds_beside_the_published_row():
    short, row = rows_of(PAGES["as published"], "| dfa | 30.0 % | 35.0 % |")
    assert "| **FAIL(D1+D2+D3)** | 30 % ± 1 | (x) (y) | 1: FAIL(D1+D2+D3); 2: FAIL(D1+D2+D3); 3: FAIL(" in row
    assert row.startswith(short.removesuffix("|").rstrip())


def test_flags_that_are_not_the_published_ones_and_remarks_stand_below():
    page = PAGES["opposite"]
    assert "- bp: of flags (x), (y) ours raises (y), published none. First. Ours: 5 epochs" in page
    assert "\n- A remark.\n" in page


def test_verdicts_of_runs_of_the_published_length_stand_apart():
    assert "as long as published:" not in PAGES["as published"]
    longer = replace(archive(MADE, as_published, "speed", budget="paper"), budget="laptop")
    (_, _, section) = pages(longer)["made.md"].partition("Trained for 10 epochs, as long as published:")
    assert "| dfa | 30.0 % | 35.0 % |" in section


def test_a_verdict_that_rests_on_fewer_controls_than_seeds_says_so():
    def one_control(spec: RunSpec) -> RunRecord | None:
        return None if spec.control != "none" and spec.seed != 1 else as_published(spec)

    row, _ = rows_of(document(archive(MADE, one_control, "speed")), "| bp | 60.0 % |")
    assert "| +25.0 (1 control for 3 seeds) |" in row
    assert "(one seed)" not in row


def test_a_method_that_passes_below_the_best_frozen_control_is_named():
    def weak(spec: RunSpec) -> RunRecord:
        own, frozen = (0.60, 0.50) if spec.method == "bp" else (0.45, 0.30)
        return run(spec, frozen if spec.control == "frozen" else own)

    page = pages(archive(MADE, weak, "speed"))["made.md"]
    assert "| dfa | 45.0 % | 30.0 % | +15.0 | -5.0 | **PASS** |" in page
    assert (
        "- dfa passes against its own frozen control, but at 45.0 % it lies 5.0 points below the best frozen control "
        "of any method (50.0 %)." in page
    )
    assert "- bp passes" not in page
    assert "best frozen control of any method" not in PAGES["as published"]


def test_a_paper_without_verdicts_has_no_such_section():
    made = archive(replace(MADE, verdicts=None), as_published, "speed")
    page = document(made)
    assert "made-verdicts.md" not in pages(made)
    assert "Our verdicts" not in page
    assert "verdicts" not in pages(made)["made.md"].partition("## The long tables")[2]
    assert page.startswith("# An Invented Paper, reproduced\n")
    assert "Words of the invented paper." in page


def test_the_abstract_counts_claims_numbers_and_methods_and_names_the_largest_differences():
    lines = pages(ARCHIVES["opposite"])["made.md"].splitlines()[2:7]
    assert lines[0].startswith("- Of 1 published claim, **0 hold on our records, 1 fails (“")
    numbers = compared_numbers(MADE, list(comparison_tables(ARCHIVES["opposite"])))
    counts = {one: sum(number.row.agreement == one for number in numbers) for one in ("agrees", "differs", "undecided")}
    assert (
        f"Of {len(numbers)} published numbers that we have run, {counts['agrees']} agree, {counts['differs']} differ "
        f"and {counts['undecided']} are undecided; of the {sum(number.as_long for number in numbers)} for which"
        in lines[1]
    )
    assert lines[2].startswith("- Of the 2 methods with published flags, the paper rejects 1 (dfa); our audit (")
    assert "our audit (protocol `three`) rejects 2 (bp; dfa), passes" in lines[2]
    largest = max(numbers, key=lambda number: number.tolerances)
    assert f"- The largest disagreement: {largest.row.heading} of {largest.row.row} in [" in lines[3]
    assert "probably because: first" in lines[3]


def test_without_published_flags_the_abstract_counts_our_verdicts_alone():
    made = archive(MADE, as_published, "speed")
    silent = {row: {name: one for name, one in figures.items() if name != "flags"}
              for row, figures in MADE.published.figures["speed"].items()}  # fmt: skip
    published = MADE.published.model_copy(update={"figures": {**MADE.published.figures, "speed": silent}})
    bare = archive(replace(MADE, published=published), as_published, "speed")
    told, alone = (pages(one)["made.md"].splitlines()[4] for one in (made, bare))
    assert told.startswith("- Of the 2 methods with published flags, the paper rejects")
    assert alone.startswith("- The paper publishes no flags. Of 2 methods our audit (protocol `three`) rejects")
    assert told.partition("our audit ")[2] == alone.partition("our audit ")[2]


def test_a_number_of_the_published_length_goes_before_a_shorter_one_and_borrowed_figures_are_left_out():
    both = archive(MADE, as_published, "speed", "size")
    longer = archive(MADE, as_published, "speed", budget="paper")
    tables = [*comparison_tables(both), *(table for table in comparison_tables(longer) if table.budget == "paper")]
    numbers = compared_numbers(MADE, tables)
    assert {number.table.budget for number in numbers} == {"paper"}
    assert {number.table.experiment for number in numbers} == {"speed"}
    assert len({number.anchor for number in numbers}) == len(numbers)


def test_a_number_of_an_early_epoch_is_not_said_to_be_trained_as_long():
    short = row(published=figure(mean=0.5), values=(0.5,), agreement="agrees", difference=0.0, epochs=5)
    early = short.model_copy(update={"quantity": "first", "early": True})
    whole = short.model_copy(update={"quantity": "whole", "epochs": 10})
    for rows, word in (
        ((early,), "for all of them ours was read after the same epoch of a longer published training."),
        ((whole,), "for all of them ours was trained as long as published."),
        ((early, whole), "for all of them ours was trained as long as published, or read after the same epoch."),
        ((early, short), "of the 1 for which ours was read after the same epoch of a longer published training, 1 "),
    ):
        tables = [table(*rows)]
        assert word in abstract(ARCHIVES["nothing"], tables, "tables")
        start = "Read after the same epoch of a longer" if whole not in rows else "Trained as long as published"
        assert caption(compared_numbers(MADE, tables), "made").startswith(start)


def test_rows_that_differ_by_a_greek_letter_have_anchors_of_their_own():
    names = ("accuracy", "accuracy + Γ", "accuracy + ρ")
    numbers = [ComparedNumber(table(), row(row=name), as_long=True) for name in names]
    assert len({number.anchor for number in numbers}) == len(names)
    assert all(" " not in number.anchor for number in numbers)


def test_the_page_of_numbers_links_to_its_rule():
    every = pages(ARCHIVES["opposite"])
    assert "[the rule in full](made.md#how-two-numbers-are-compared)" in every["made-numbers.md"]
    assert "\n## How two numbers are compared\n" in every["made.md"]


def test_a_dot_shows_both_numbers_and_links_to_its_row():
    numbers = compared_numbers(MADE, list(comparison_tables(ARCHIVES["opposite"])))
    drawn = dots(numbers, "made")
    text = pages(ARCHIVES["opposite"])["made-numbers.md"]
    assert drawn
    for dot in drawn:
        assert f'<span id="{dot.href.partition("#")[2]}"></span>' in text
    (bp,) = [dot for dot in drawn if "bp, accuracy" in dot.name]
    assert bp.ours == pytest.approx(20.0)
    assert bp.hollow
    svg = identity_svg(drawn, PAPER)
    assert svg.count("<a href=") == len(drawn)
    assert "http" not in svg.replace("http://www.w3.org/", "")


def test_without_a_number_there_is_no_picture():
    assert "```{raw}" not in PAGES["nothing"]
    assert "No published number has a run of ours beside it yet." in PAGES["nothing"]


def test_a_page_says_how_many_runs_have_a_record_while_some_have_none():
    runs = {key for name in MADE.names for key in ARCHIVES["nothing"].plan(name)}
    assert f"0 of {len(runs)} runs of these experiments have a record." in pages(ARCHIVES["nothing"])["made.md"]
    done = {key for key in runs if ARCHIVES["as published"].record(key) is not None}
    assert f"{len(done)} of {len(runs)} runs" in pages(ARCHIVES["as published"])["made.md"] or done == runs
