"""A checkpoint is audited on its whole test set, against its own frozen twin and no other."""

from __future__ import annotations

import io

import pytest
import torch
from tests.study.made import record

from creditscope.errors import InvalidInput
from creditscope.runs.audit import audit_checkpoint
from creditscope.runs.controls import matching_controls
from creditscope.runs.run import load, load_data, train
from creditscope.runs.spec import RunSpec
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.job import Job, attempt
from creditscope.study.engines.local import LocalEngine
from creditscope.study.store import RunState, Store

SPEC = RunSpec(network_options={"d": 16, "depth": 2}, method="dfa", epochs=2, seed=1)


@pytest.fixture(scope="module")
def checkpoint():
    return train(SPEC)


def test_the_report_has_the_accuracies_of_run_and_control_and_the_credit(checkpoint):
    twin = record(SPEC.control_spec("frozen"), 0.1)
    report = audit_checkpoint(checkpoint, load_data(SPEC), [twin])
    assert report.accuracy == (checkpoint.record.accuracy,)
    assert report.control_accuracy == (0.1,)
    assert report.provenance.images == 1000
    assert report.provenance.seeds == (1,)
    assert "gamma" in report.measures
    assert "single seed" in report.findings["D3"].note


def test_the_control_of_the_own_seed_is_taken_before_others_and_strangers_are_refused():
    own, other = record(SPEC.control_spec("frozen")), record(SPEC.control_spec("frozen").model_copy(update={"seed": 2}))
    assert matching_controls(SPEC, [other, own]) == (own,)
    assert matching_controls(SPEC, [other]) == (other,)
    with pytest.raises(InvalidInput, match="is not the frozen control of dfa"):
        matching_controls(SPEC, [record(SPEC.model_copy(update={"epochs": 3}).control_spec("frozen"))])


def test_a_job_of_another_version_is_refused(tmp_path):
    result = attempt(Job("0" * 16, SPEC), lambda row: None)
    assert "another version of creditscope" in result.error.message
    assert not result.record


def test_a_snapshot_that_cannot_be_read_is_set_aside(tmp_path, checkpoint):
    snapshot = tmp_path / "snapshot"
    snapshot.write_bytes(b"nonsense")
    result = attempt(Job(SPEC.key, SPEC, snapshot=snapshot), lambda row: None)
    assert result.error is None
    assert f'"accuracy": {checkpoint.record.accuracy}' in result.record
    assert (tmp_path / "snapshot.damaged").read_bytes() == b"nonsense"


def test_a_network_that_cannot_be_audited_is_handed_back_all_the_same(monkeypatch):
    monkeypatch.setattr("creditscope.runs.audit.audit", lambda *anything, **named: 1 / 0)
    result = attempt(Job(SPEC.key, SPEC), lambda row: None)
    assert result.weights
    assert result.error.stage == "audit"
    assert "ZeroDivisionError" in result.error.traceback


def test_local_processes_do_the_runs_with_the_same_bits_as_this_one(tmp_path, checkpoint):
    wrong = SPEC.model_copy(update={"control": "ladder-9"})
    runs = {spec.key: spec for spec in (SPEC, SPEC.control_spec("frozen"), wrong)}
    store = Store(tmp_path / "store")
    text = io.StringIO()
    with LocalEngine(1) as engine:
        summary = run_study(runs, store, engine, Board(text), StudyOptions())
    assert summary.done == [SPEC.key, SPEC.control_spec("frozen").key]
    assert summary.failed == [wrong.key]
    assert "The ladder has rungs 0 to 2" in store.failure(wrong.key).traceback
    found = load(store.folder / SPEC.key)
    for name, tensor in checkpoint.network.state_dict().items():
        assert torch.equal(found.network.state_dict()[name], tensor)
    assert found.record.history == checkpoint.record.history
    assert "gamma" in found.record.report.measures
    assert store.state(SPEC.key) is RunState.DONE


@pytest.mark.slow
def test_a_worker_that_dies_is_reported_and_replaced(tmp_path):
    store = Store(tmp_path / "store")
    long = SPEC.model_copy(update={"epochs": 5000})
    runs = {spec.key: spec for spec in (long, SPEC)}
    with LocalEngine(1) as engine:
        start = engine.start

        def fatal(job: Job) -> None:
            start(job)
            if job.key == long.key:
                (worker,) = engine._busy.values()
                worker.process.kill()

        engine.start = fatal
        summary = run_study(runs, store, engine, Board(io.StringIO()), StudyOptions())
    assert (summary.starved, summary.failed) == ([long.key], [])  # signal 9 is what a machine without memory sends
    assert summary.done == [SPEC.key]
    assert store.failure(long.key) is None
