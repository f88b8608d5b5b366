"""Twenty-two experiments, each with a declared study of the same name that has runs for every row of its table."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.creditscope_papers.hao2026.made import archive, planned
from tests.papers.made import PLANS, MadeStore, run

from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.papers.captions import describe_training
from creditscope.papers.paper import Where
from creditscope.papers.tables import comparison_table
from creditscope.study.declaration import Study
from creditscope_papers.hao2026 import PAPER

NAMES = PAPER.names
# Rows that are published, but for which there is nothing to run: the bridges reject a stream whose width changes.
NO_RUNS = {("cnn", "state_bridge"), ("cnn", "credit_bridge")}


def test_there_are_twenty_two_experiments_and_no_other_study():
    assert len(NAMES) == len(set(NAMES)) == 22
    assert {path.stem for path in PAPER.studies.iterdir()} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_an_experiment_has_a_study_of_its_name_with_both_budgets(name):
    study = Study.read(PAPER.studies / f"{name}.toml")
    assert study.name == name
    assert set(PAPER.budgets) <= set(study.budgets)
    assert PAPER.experiment(name).question.endswith("?")


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
            "30 epochs, seeds 42, 123, 456; bp on cifar10, resmlp(terminal_ln=false): 30 epochs, seed 42; "
            "vit_mini(patch=8): 3 epochs, seed 42; patch = 8 instead of 4; "
            "DFA with index = output unless a row says otherwise",
        ),
    ],
)
def test_the_caption_names_the_rows_that_were_trained_otherwise(name, budget, caption):
    assert describe_training(archive(budget=budget), name) == caption


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_study_was_trained_as_its_caption_says(name):
    """Its seed stands in the first part, or its network in another that has its epochs and seed."""
    usual, *others = describe_training(archive(), name).split("; ")
    for spec in planned(name).values():
        said = [part for part in others if spec.network in part and f"{spec.epochs} epochs" in part]
        like_most = usual.startswith(f"{spec.epochs} epochs, ") and str(spec.seed) in usual
        assert like_most or any(str(spec.seed) in part for part in said)


LOOKED: dict[tuple[str, str], list[int]] = {}
BORROWED = {"early_epochs": ("random_init",), "causal_controls": ("random_init",), "triangulation": ("main_audit",)}


class Watching(RunArchive):
    """An archive that writes down which settings were selected, and how many runs have them."""

    def select(self, study: str, where: Where) -> SelectedRuns:
        runs = super().select(study, where)
        LOOKED.setdefault((study, repr(sorted(where.items()))), []).append(len(runs.specs))
        return runs


def looked_for(name: str) -> Iterator[tuple[str, list[int]]]:
    """Every setting that an experiment selects, with the number of runs that it has in each budget."""
    LOOKED.clear()
    for budget in PAPER.budgets:
        comparison_table(Watching(PAPER, MadeStore({}), budget, PLANS.setdefault(PAPER.name, {})), name)
    for (study, where), counts in LOOKED.items():
        assert study == name or study in BORROWED.get(name, ())
        yield where, counts


@pytest.mark.parametrize("name", NAMES)
def test_every_row_has_runs_in_one_of_the_budgets(name):
    """A mistyped setting would find nothing, and its row would stay not run for ever."""
    without = {where for where, counts in looked_for(name) if not any(counts)}
    assert without == {repr([("method", method)]) for study, method in NO_RUNS if study == name}


@pytest.mark.parametrize("name", NAMES)
def test_every_run_of_a_study_stands_in_its_table_or_is_the_control_of_one_that_does(name):
    shown = {key for row in comparison_table(archive(run, name), name).rows for key in row.keys}
    trained = {key for key, spec in planned(name).items() if spec.control == "none"}
    assert trained <= shown


@pytest.mark.parametrize("name", NAMES)
def test_a_table_without_runs_says_not_run_and_nothing_else(name):
    made = comparison_table(archive(), name)
    assert {row.agreement for row in made.rows} == {"not run"}
    assert all(not row.values and not row.texts and not row.keys for row in made.rows)


@pytest.mark.parametrize("name", NAMES)
def test_a_table_of_runs_that_were_never_audited_can_be_made(name):
    made = comparison_table(archive(lambda spec: run(spec, values=None), name), name)
    assert any(row.keys for row in made.rows)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_carries_the_keys_of_its_runs(name):
    made = comparison_table(archive(run, name), name)
    numbers = [row for row in made.rows if row.values or row.texts]
    assert numbers
    assert all(row.keys and set(row.keys) <= set(planned(name)) for row in numbers)
