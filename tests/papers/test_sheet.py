"""A line holds our numbers with the keys of their runs, the published figure, and what follows from the two."""

from __future__ import annotations

import math

import pytest
from tests.papers.made import EXPLODED, HEALTHY, book, figure, planned, run, sheet

from creditscope.papers import sheet as sheets
from creditscope.papers.comparison import Outcome
from creditscope.papers.quantities import ACCURACY, GROWTH
from creditscope.papers.sheet import computed, flag_line, lines
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec

SEEDS = (42, 123, 456)


@pytest.fixture
def publish(monkeypatch):
    """Let this be the published figure of every row and quantity."""
    return lambda shown: monkeypatch.setattr(sheets, "figure", lambda *where: shown)


def of(made, *quantities, row="bp"):
    return lines(made, "main_audit", row, {"method": "bp"}, quantities)


def test_numbers_stand_with_the_keys_and_seeds_of_their_runs(publish):
    publish(figure(mean=0.6, std=0.01))
    made = book(lambda spec: run(spec, 0.6 + spec.seed / 1e5) if spec.seed != 123 else None, "main_audit")
    accuracy, growth = of(made, ACCURACY, GROWTH)
    assert accuracy.values == pytest.approx((0.6 + 42e-5, 0.6 + 456e-5))
    assert accuracy.seeds == growth.seeds == (42, 456)
    assert accuracy.missing == (123,)
    assert [planned("main_audit")[key].seed for key in accuracy.keys] == [42, 456]
    assert (accuracy.outcome, growth.values) == (Outcome.AGREES, (1.5, 1.5))


def test_without_a_run_a_row_is_not_run(publish):
    publish(figure(mean=0.6))
    (accuracy,) = of(book(), ACCURACY)
    assert (accuracy.outcome, accuracy.values, accuracy.missing) == (Outcome.NOT_RUN, (), SEEDS)


def test_a_run_that_stopped_early_is_named(publish):
    publish(figure(mean=0.6, note="of the paper"))
    made = book(lambda spec: run(spec, diverged=spec.seed == 123), "main_audit")
    (accuracy,) = of(made, ACCURACY)
    assert accuracy.note.endswith("of the paper; seed 123 diverged in epoch 3")


# --- flags ---


def flagged(values=EXPLODED, accuracy=0.30, frozen: float | None = 0.35):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.control == "frozen":
            return None if frozen is None else run(spec, frozen)
        return run(spec, accuracy, values) if spec.control == "none" else None

    return flag_line(book(make, "main_audit"), "main_audit", "bp", {"method": "bp"})


@pytest.mark.parametrize(
    ("fields", "text", "outcome"),
    [
        ({}, "(a) (b) (d)", "agrees"),
        ({"values": {**EXPLODED, "D4": 0.9}}, "(a) (b) (d)", "agrees"),  # (c) has a line of its own
        ({"values": HEALTHY}, "(d)", "differs"),
        ({"values": {**EXPLODED, "D0": 1.0}}, "non-finite (a) (b) (d)", "differs"),
        ({"accuracy": 0.365}, "(a) (b) (d)", "agrees"),  # undecided, but past the limit: the published point rule
        ({"accuracy": 0.375}, "(a) (b)", "differs"),  # undecided, and not past it
        ({"frozen": None}, "(a) (b)", "not run"),
        ({"values": {**EXPLODED, "D2": math.nan}}, "(a) (d)", "not run"),
        ({"values": None}, "(d)", "not run"),
    ],
)
def test_flags_are_raised_by_the_number_alone(publish, fields, text, outcome):
    publish(figure(flags=("(a)", "(b)", "(d)")))
    found = flagged(**fields)
    assert (found.texts, found.outcome) == ((text,) * 3, outcome)
    assert found.seeds == SEEDS


def test_a_flag_that_was_not_measured_is_named(publish):
    publish(figure(flags=(), unmeasured=("(d)",)))
    found = flagged(HEALTHY, frozen=None)
    assert (found.texts[0], found.outcome) == ("none", "agrees")
    assert "(d) not measured" in found.note


def test_flags_of_nothing_are_not_run(publish):
    publish(figure(flags=()))
    found = flag_line(book(), "main_audit", "bp", {"method": "bp"})
    assert (found.outcome, found.texts, found.keys) == ("not run", (), ())


# --- lines made of several runs ---


def test_words_without_a_number_have_nothing_to_be_held_against(publish):
    publish(None)
    assert computed("wide", "a", GROWTH, [], ["key"], texts=("words",)).outcome == "not published"
    assert computed("wide", "a", GROWTH, [], []).outcome == "not run"
    publish(figure(mean=3.0, note="theirs"))
    found = computed("wide", "a", GROWTH, [], ["key"], texts=("words",), note="ours")
    assert (found.outcome, found.note) == ("not run", "theirs; ours")
    assert computed("wide", "a", GROWTH, [3.0], ["key"]).outcome == "agrees"


def test_another_budget_has_files_of_its_own():
    assert sheet().stem == "wide"
    assert sheet(budget="paper").stem == "wide-paper"
