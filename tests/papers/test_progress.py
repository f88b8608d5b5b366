"""The list says how far every experiment is, and counts a run that two of them share once."""

from __future__ import annotations

import pytest
from tests.papers.made import planned, run

from creditscope.papers.book import Book
from creditscope.papers.experiments import in_order
from creditscope.papers.progress import listing
from creditscope.study.store import Store

EVERYTHING = {key: spec for one in in_order() for key, spec in planned(one.name).items()}


@pytest.fixture
def store(tmp_path):
    """All runs of fresh_feedback are done, each in two seconds."""
    for key, spec in planned("fresh_feedback").items():
        run(spec).to_json(tmp_path / "results" / f"{key}.json")
    return Store(tmp_path / "runs", [tmp_path / "results"])


def rows(text: str) -> dict[str, str]:
    names = [one.name for one in in_order()]
    return {name: line for line in text.splitlines() for name in names if f" {name} " in line}


def test_every_experiment_has_a_line_with_state_runs_and_time(store):
    found = rows(listing(Book(store), 140, 2))
    assert len(found) == 18
    assert "3/3" in found["fresh_feedback"]
    assert found["fresh_feedback"].rstrip().endswith("done")
    assert "partly" in found["penalty"]  # which shares the penalised runs
    assert "3/57" in found["penalty"]
    assert "not run" in found["cifar100"]


def test_one_experiment_is_listed_alone(store):
    shown = listing(Book(store), 140, 2, ["fresh_feedback"])
    assert list(rows(shown)) == ["fresh_feedback"]
    assert "3 of 3 runs are done" in shown


def test_a_run_that_experiments_share_counts_once(store):
    shown = listing(Book(store), 140, 2)
    assert f"3 of {len(EVERYTHING)} runs are done" in shown
    assert sum(len(planned(one.name)) for one in in_order()) > len(EVERYTHING)


def test_time_goes_by_what_finished_runs_took_and_halves_with_two_workers(store):
    per_epoch = 2.0 / 30
    left = sum(spec.epochs for key, spec in planned("cifar100").items()) * per_epoch
    assert f"{left:.0f} s" in rows(listing(Book(store), 140, 1))["cifar100"]
    assert f"{left / 2:.0f} s" in rows(listing(Book(store), 140, 2))["cifar100"]


def test_where_nothing_has_finished_no_time_is_claimed(tmp_path):
    shown = listing(Book(Store(tmp_path)), 140, None)
    assert "unknown: nothing has finished" in shown
    assert f"0 of {len(EVERYTHING)} runs are done" in shown
