"""Studies with `stack = true`: runs trained at once leave what single runs leave."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load
from tests.study.made import PretendEngine, finished, without_times, write_study

from creditscope.errors import InvalidInput
from creditscope.runs import stack as stacks
from creditscope.runs.stack import stack_form
from creditscope.study.declaration import MOST_AT_ONCE, Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines import job as jobs
from creditscope.study.engines.engine import Event, RunEnded
from creditscope.study.engines.job import Job, RunResult, attempt_all
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store

STUDY = """
name = "stacked"
stack = true
[fixed]
"network.d" = 16
"network.depth" = 1
epochs = 2
batch_size = 1000
[grid]
method = ["dfa"]
seed = [1, 2]
learning_rate = [0.001, 0.003]
"""


@pytest.fixture
def unaudited(monkeypatch: pytest.MonkeyPatch) -> None:
    """An audit takes longer than these runs, and sees the same weights."""
    monkeypatch.setattr(jobs, "_audited", lambda checkpoint, job: checkpoint)


class Stacks(PretendEngine):
    """Takes stacks, and ends their runs at the next look."""

    stacks = True

    def events(self, seconds: float) -> list[Event]:
        now, self._now = self._now, []
        return [RunEnded(one.key, self.answer(one)) for job in now for one in (job, *job.beside)]


def runs(text: str = STUDY) -> Plan:
    return plan(Study.parse(text))


def jobs_of(text: str = STUDY, **options: Any) -> list[Job]:
    return [Job(key, spec, **options) for key, spec in runs(text).items()]


def results(job: Job) -> dict[str, RunResult]:
    return dict(attempt_all(job, lambda key, row: None))


def same(stacked: RunResult, single: RunResult) -> None:
    assert (stacked.error, single.error) == (None, None)
    one, other = load(stacked.weights), load(single.weights)
    assert one.keys() == other.keys()
    assert all(one[name].equal(other[name]) for name in one)
    assert without_seconds(stacked.record) == without_seconds(single.record)


def without_seconds(text: str) -> dict[str, Any]:
    from creditscope.records.run import RunRecord

    return RunRecord.parse(text, "a result").model_dump(mode="json", exclude={"timings"})


def test_a_stack_of_jobs_gives_every_run_the_result_that_it_has_alone(unaudited: None, tmp_path: Path) -> None:
    first, *others = jobs_of()
    epochs: list[str] = []
    beside = Job(first.key, first.spec, snapshot=tmp_path / "one.snapshot", beside=tuple(others))
    stacked = dict(attempt_all(beside, lambda key, row: epochs.append(key)))
    assert sorted(epochs) == sorted(2 * [first.key, *(job.key for job in others)])
    for job in (first, *others):
        same(stacked[job.key], results(job)[job.key])


def test_a_stack_that_fails_is_executed_run_by_run(unaudited: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*arguments: Any, **options: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(stacks, "train_many", out_of_memory)
    first, *others = jobs_of()
    stacked = results(Job(first.key, first.spec, beside=tuple(others[:1])))
    assert [result.error for result in stacked.values()] == [None, None]


def test_runs_are_stacked_that_differ_only_in_seed_rate_penalty_and_feedback() -> None:
    def forms(text: str) -> set[str | None]:
        return {stack_form(spec) for spec in runs(text).values()}

    assert len(forms(STUDY)) == 1
    assert len(forms(STUDY + "penalty = [0.01, 0.02]\n")) == 1
    assert len(forms(STUDY + "penalty = [0.0, 0.02]\n")) == 2  # without a penalty nothing is added
    assert len(forms(STUDY.replace('"dfa"', '"fa_weights"') + '"method.scale" = [1.0, 2.0]\n')) == 1
    assert len(forms(STUDY.replace('"dfa"', '"dfa", "bp"'))) == 2
    assert len(forms(STUDY + "epochs = [2, 3]\n".replace("epochs", '"network.depth"'))) == 2
    assert forms(STUDY.replace('"dfa"', '"kolen_pollack"')) == {None}


@pytest.mark.parametrize(("most", "sizes"), [(1, [1, 1, 1, 1]), (3, [3, 1]), (MOST_AT_ONCE, [4])])
def test_the_driver_hands_runs_of_one_form_to_one_worker(tmp_path: Path, most: int, sizes: list[int]) -> None:
    engine = Stacks()
    summary = run_study(runs(), Store(tmp_path), engine, Board(io.StringIO()), StudyOptions(stack=most))
    assert [1 + len(job.beside) for job in engine.jobs] == sizes
    assert len(summary.done) == 4


def test_an_engine_without_stacks_trains_every_run_by_itself(tmp_path: Path) -> None:
    engine = PretendEngine()
    summary = run_study(runs(), Store(tmp_path), engine, Board(io.StringIO()), StudyOptions(stack=8))
    assert [job.beside for job in engine.jobs] == [()] * 4
    assert len(summary.done) == 4


@pytest.mark.parametrize(("given", "most"), [("true", MOST_AT_ONCE), ("false", 1), ("8", 8)])
def test_a_study_says_how_many_runs_are_trained_at_once(given: str, most: int) -> None:
    study = Study.parse(STUDY.replace("stack = true", f"stack = {given}"))
    assert study.stack == most
    assert plan(study).keys() == runs(STUDY.replace("stack = true", "")).keys()


@pytest.mark.parametrize("given", ["0", "-1", '"yes"', "1.5"])
def test_another_stack_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput, match=r"stack: expected true, false or a whole number of at least 1, got"):
        Study.parse(STUDY.replace("stack = true", f"stack = {given}"))


@pytest.mark.slow
def test_a_stacked_study_leaves_the_folders_of_a_plain_one(tmp_path: Path) -> None:
    contents = []
    for name, text in (("stacked", STUDY), ("plain", STUDY.replace("stack = true", ""))):
        (tmp_path / name).mkdir()
        file = write_study(tmp_path / name, text)
        done = finished("study", "run", file, "--store", tmp_path / name / "runs", "--workers", "1")
        assert done.returncode == 0, done.stderr
        contents.append(without_times(tmp_path / name / "runs"))
    assert len(contents[0]) == 4
    assert contents[0] == contents[1]
