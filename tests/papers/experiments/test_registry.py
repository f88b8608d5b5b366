"""Seventeen experiments, each with a declared study of the same name that has runs for every row of its table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.papers.made import MadeStore, book, planned, run

from creditscope.papers.book import Book, Found, Where, study_file
from creditscope.papers.experiments import experiments, in_order, sheet, trained_with
from creditscope.study.declaration import Study

NAMES = [one.name for one in in_order()]
# Rows that are published, but for which there is nothing to run: the bridges refuse a stream whose width changes.
NO_RUNS = {("cnn", "state_bridge"), ("cnn", "credit_bridge")}


def test_the_numbers_are_1_to_18_each_once():
    assert [one.number for one in in_order()] == list(range(1, 19))


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_a_study_of_its_name_with_both_budgets(name):
    study = Study.read(study_file(name))
    assert study.name == name
    assert {"laptop", "paper"} <= set(study.budgets)
    assert Path(study.source).stem == name
    assert experiments[name].question.endswith("?")


@pytest.mark.parametrize("name", NAMES)
def test_the_laptop_trains_no_longer_than_the_paper(name):
    longest = {budget: max(spec.epochs for spec in planned(name, budget).values()) for budget in ("laptop", "paper")}
    assert longest["laptop"] <= longest["paper"]


@pytest.mark.parametrize(
    ("name", "budget", "caption"),
    [
        ("main_audit", "laptop", "30 epochs, seeds 42, 123, 456"),
        ("wide", "laptop", "5 epochs, seed 42; DFA with index = output"),
        (
            "temporal",
            "paper",
            "100 epochs, seeds 42, 123, 456; DFA with index = output unless a row says otherwise",
        ),
        (
            "temporal",
            "laptop",
            "30 epochs, seeds 42, 123, 456; bp on cifar10, resmlp(terminal_ln=False): 30 epochs, seed 42; "
            "vit_mini(patch=8): 3 epochs, seed 42; patch = 8 instead of 4; "
            "DFA with index = output unless a row says otherwise",
        ),
    ],
)
def test_the_caption_names_the_rows_that_were_trained_otherwise(name, budget, caption):
    assert trained_with(book(budget=budget), name) == caption


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_study_was_trained_as_its_caption_says(name):
    """Its seed stands in the first part, or its network in another that has its epochs and seed."""
    usual, *others = trained_with(book(), name).split("; ")
    for spec in planned(name).values():
        said = [part for part in others if spec.network in part and f"{spec.epochs} epochs" in part]
        like_most = usual.startswith(f"{spec.epochs} epochs, ") and str(spec.seed) in usual
        assert like_most or any(str(spec.seed) in part for part in said)


class Watching(Book):
    """A book that writes down what is looked for."""

    def find(self, study: str, where: Where) -> Found:
        found = super().find(study, where)
        LOOKED.setdefault((study, repr(sorted(where.items()))), []).append(len(found.specs))
        return found


LOOKED: dict[tuple[str, str], list[int]] = {}
BORROWED = {"early_epochs": ("random_init",), "causal_controls": ("random_init",), "triangulation": ("main_audit",)}


def looked_for(name: str) -> Iterator[tuple[str, list[int]]]:
    """Every setting that an experiment looks for, with the number of runs that it has in each budget."""
    LOOKED.clear()
    for budget in ("laptop", "paper"):
        watching = Watching(MadeStore({}), budget, dict(book(budget=budget)._plans))
        sheet(name, watching)
    for (study, where), counts in LOOKED.items():
        assert study == name or study in BORROWED.get(name, ())
        yield where, counts


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_runs_in_one_of_the_budgets(name):
    """A mistyped setting would find nothing, and its row would stay not run for ever."""
    without = {where for where, counts in looked_for(name) if not any(counts)}
    assert without == {repr([("method", method)]) for study, method in NO_RUNS if study == name}


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_study_stands_in_its_table_or_is_the_twin_of_one_that_does(name):
    shown = {key for line in sheet(name, book(run, name)).lines for key in line.keys}
    trained = {key for key, spec in planned(name).items() if spec.control == "none"}
    assert trained <= shown


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_runs_says_not_run_and_nothing_else(name):
    made = sheet(name, book())
    assert {line.outcome for line in made.lines} == {"not run"}
    assert all(not line.values and not line.texts and not line.keys for line in made.lines)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_runs_that_were_never_audited_can_be_made(name):
    made = sheet(name, book(lambda spec: run(spec, values=None), name))
    assert any(line.keys for line in made.lines)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_carries_the_keys_of_its_runs(name):
    made = sheet(name, book(run, name))
    numbers = [line for line in made.lines if line.values or line.texts]
    assert numbers
    assert all(line.keys and set(line.keys) <= set(planned(name)) for line in numbers)
