"""The list says how far every experiment is, and counts a run that two of them share once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.papers.made import MADE, planned, run

from creditscope.papers.archive import RunArchive
from creditscope.papers.paper import Experiment
from creditscope.papers.progress import listing
from creditscope.study.store import Store

SPEED, SIZE = planned(MADE, "speed"), planned(MADE, "size")
EVERYTHING = {**SPEED, **SIZE}


@pytest.fixture
def done(tmp_path):
    """BP's runs of the study of speed are done, each in two seconds."""
    for key, spec in SPEED.items():
        if spec.method == "bp" and spec.control == "none":
            run(spec).to_json(tmp_path / "results" / f"{key}.json")
    return RunArchive(MADE, Store(tmp_path / "runs", [tmp_path / "results"]), "laptop")


def rows(text: str) -> dict[str, str]:
    return {name: line for line in text.splitlines() for name in MADE.names if f" {name} " in line}


def test_every_experiment_has_a_line_with_runs_state_and_time(done):
    text = listing(done, 140, 2)
    assert "Budget laptop, 2 runs in parallel" in text
    found = rows(text)
    assert f"3/{len(SPEED)}" in found["speed"]
    assert "partly" in found["speed"]
    assert f"3/{len(SIZE)}" in found["size"]  # which shares these runs
    one = replace(MADE, experiments=(Experiment("size", "?", ()),))
    assert "not run" in listing(RunArchive(one, Store("nowhere"), "paper"), 140, 2)


def test_one_experiment_is_listed_alone(done):
    assert list(rows(listing(done, 140, 2, ["size"]))) == ["size"]


def test_a_run_that_experiments_share_counts_once(done):
    assert f"3 of {len(EVERYTHING)} runs done" in listing(done, 140, 2)
    assert len(SPEED) + len(SIZE) > len(EVERYTHING)


def test_time_is_estimated_from_finished_runs_and_halves_with_two_workers(done):
    per_epoch = 2.0 / 5
    missing = [spec for key, spec in SPEED.items() if done.record(key) is None]
    left = sum(spec.epochs for spec in missing) * per_epoch
    assert f"{left:.0f} s" in rows(listing(done, 140, 1))["speed"]
    assert f"{left / 2:.0f} s" in rows(listing(done, 140, 2))["speed"]


def test_where_nothing_has_finished_no_time_is_claimed(tmp_path):
    text = listing(RunArchive(MADE, Store(tmp_path), "laptop"), 140, None)
    assert "unknown: no run has finished" in text
    assert f"0 of {len(EVERYTHING)} runs done" in text
