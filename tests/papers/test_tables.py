"""A row holds our numbers with the keys of their runs, the published figure, and what follows from the two."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from tests.papers.made import EXPLODED, FLAGS, HEALTHY, MADE, archive, figure, planned, run

from creditscope.papers.comparison import Agreement
from creditscope.papers.paper import RunGroup
from creditscope.papers.quantities import ACCURACY, GROWTH
from creditscope.papers.tables import RunKeys, aggregate_row, comparison_table, comparison_tables, group_rows
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec

BP = RunGroup("bp", {"method": "bp"}, (ACCURACY, GROWTH))


def publishing(**fields):
    """The invented paper with this figure of BP's accuracy, and as its flags."""
    shown = {"bp": {"accuracy": figure(**fields), "flags": figure(**fields)}}
    return replace(MADE, published=MADE.published.model_copy(update={"figures": {"speed": shown}}))


def test_numbers_stand_with_the_keys_and_seeds_of_their_runs():
    made = archive(MADE, lambda spec: run(spec, 0.6 + spec.seed / 1e5) if spec.seed != 2 else None, "speed")
    accuracy, growth = group_rows(made, "speed", BP)
    assert accuracy.values == pytest.approx((0.6 + 1e-5, 0.6 + 3e-5))
    assert accuracy.seeds == growth.seeds == (1, 3)
    assert accuracy.missing == (2,)
    assert [planned(MADE, "speed")[key].seed for key in accuracy.keys] == [1, 3]
    assert (accuracy.agreement, growth.values, accuracy.epochs) == (Agreement.AGREES, (1.5, 1.5), 5)


def test_without_a_run_a_row_is_not_run():
    accuracy, _ = group_rows(archive(MADE), "speed", BP)
    assert (accuracy.agreement, accuracy.values, accuracy.missing) == (Agreement.NOT_RUN, (), (1, 2, 3))


def test_settings_without_any_run_are_not_in_the_budget():
    accuracy, _ = group_rows(archive(MADE), "speed", replace(BP, where={"method": "fa"}))
    assert accuracy.note == "not in this budget"


def test_a_run_that_stopped_early_is_named():
    made = archive(publishing(mean=0.6, note="of the paper"), lambda spec: run(spec, diverged=spec.seed == 2), "speed")
    accuracy, _ = group_rows(made, "speed", BP)
    assert accuracy.note.endswith("of the paper; seed 2 diverged in epoch 3")


def test_a_group_may_take_its_runs_from_one_experiment_and_its_figures_from_another():
    made = archive(MADE, run, "size")
    accuracy, *_ = group_rows(made, "speed", replace(BP, study="size", where={"network": "vit_mini"}))
    assert set(accuracy.keys) <= set(planned(MADE, "size"))
    borrowed, *_ = comparison_table(made, "size").rows
    assert borrowed.published == MADE.published.figure("speed", "bp", "accuracy")


def test_flags_are_borrowed_like_any_figure():
    made = archive(MADE, run, "size")
    group = RunGroup("a network", {"network": "resmlp"}, (), FLAGS, beside=("speed", "dfa"))
    (row,) = group_rows(made, "size", group)
    assert row.published == MADE.published.figure("speed", "dfa", "flags")


def test_an_event_is_judged_by_the_lengths_of_training():
    """Ours were trained for 5 of 10 epochs: nothing is known about the others."""
    figures = {"size": {"bp": {"first_D1": figure(never=True)}}}
    paper = replace(MADE, published=MADE.published.model_copy(update={"figures": figures}))
    group = replace(MADE.experiment("size").rows[0], beside=None)
    rows = {row.quantity: row for row in group_rows(archive(paper, run, "size"), "size", group)}
    assert rows["first_D1"].note.startswith("ours: not within 1 epoch, theirs: not within 10")
    assert rows["loss_1"].early
    assert not rows["first_D1"].early


# --- flags ---


def flagged(published, values=EXPLODED, accuracy=0.30, frozen: float | None = 0.35):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.control == "frozen":
            return None if frozen is None else run(spec, frozen)
        return run(spec, accuracy, values)

    made = archive(publishing(**published), make, "speed")
    return group_rows(made, "speed", RunGroup("bp", {"method": "bp"}, (), FLAGS))[0]


@pytest.mark.parametrize(
    ("fields", "text", "agreement"),
    [
        ({}, "(x) (y)", "agrees"),
        ({"values": {**EXPLODED, "D4": 0.9}}, "(x) (y)", "agrees"),  # which is no flag of this paper
        ({"values": HEALTHY}, "(y)", "differs"),
        ({"accuracy": 0.365}, "(x) (y)", "agrees"),  # undecided, but past the limit: the number alone counts
        ({"accuracy": 0.375}, "(x)", "differs"),  # undecided, and not past it
        ({"frozen": None}, "(x)", "not run"),
        ({"values": {**EXPLODED, "D1": math.nan}}, "(y)", "not run"),
        ({"values": None}, "(y)", "not run"),
    ],
)
def test_flags_are_raised_by_the_number_alone(fields, text, agreement):
    row = flagged({"flags": ("(x)", "(y)")}, **fields)
    assert (row.texts, row.agreement, row.seeds) == ((text,) * 3, agreement, (1, 2, 3))


def test_a_flag_that_was_not_measured_is_named():
    row = flagged({"flags": (), "unmeasured": ("(y)",)}, HEALTHY, frozen=None)
    assert (row.texts[0], row.agreement) == ("none", "agrees")
    assert "(y) not measured" in row.note


def test_flags_of_nothing_are_not_run():
    (row,) = group_rows(archive(MADE), "speed", RunGroup("bp", {"method": "bp"}, (), FLAGS))
    assert (row.agreement, row.texts, row.keys) == ("not run", (), ())


# --- aggregates and whole tables ---


def test_texts_without_a_number_have_nothing_to_be_compared_with():
    runs = RunKeys(["key"])
    assert aggregate_row(None, "a", GROWTH, [], runs, texts=("words",)).agreement == "not published"
    assert aggregate_row(None, "a", GROWTH, [], RunKeys()).agreement == "not run"
    theirs = figure(mean=3.0, note="theirs")
    row = aggregate_row(theirs, "a", GROWTH, [], runs, texts=("words",), note="ours")
    assert (row.agreement, row.note) == ("not run", "theirs; ours")
    assert aggregate_row(theirs, "a", GROWTH, [3.0], runs).agreement == "agrees"


def test_a_table_holds_declared_and_computed_rows_in_their_order():
    made = archive(MADE, lambda spec: run(spec, 0.6 if spec.method == "bp" else 0.3), "speed")
    table = comparison_table(made, "speed")
    assert [(row.row, row.quantity) for row in table.rows] == [
        *((method, quantity) for method in ("bp", "dfa") for quantity in ("accuracy", "growth", "flags")),
        ("both", "gap"),
    ]
    assert table.rows[-1].values == pytest.approx((30.0,))
    assert (table.paper, table.number, table.stem) == ("made", 1, "speed")
    assert (table.ours, table.theirs) == ("5 epochs, seeds 1, 2, 3; 2 methods", "10 epochs, 3 seeds; as stated")


def test_runs_of_the_published_length_have_a_table_of_their_own():
    assert [table.stem for table in comparison_tables(archive(MADE, run, "speed"))] == ["speed", "size"]
    longer = replace(archive(MADE, run, "speed", budget="paper"), budget="laptop")
    tables = {table.stem: table for table in comparison_tables(longer)}
    assert list(tables) == ["speed", "speed-paper", "size", "size-paper"]  # they share BP's runs
    assert all(row.agreement == "not run" for row in tables["speed"].rows)
    assert tables["speed-paper"].ours.startswith("10 epochs")
