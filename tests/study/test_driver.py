"""The driver does what is missing, once, and keeps whatever comes back."""

from __future__ import annotations

import io
import shutil
from dataclasses import replace

import pytest
from tests.study.made import TWELVE, PretendEngine, failing, record

from creditscope.errors import BadFile, DataUnavailable, NoRoom
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board, LiveBoard
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.job import Job, RunError, RunResult
from creditscope.study.execution import closing, execute
from creditscope.study.plan import plan
from creditscope.study.status import study_status
from creditscope.study.store import RunState, Store

RUNS = plan(Study.parse(TWELVE.replace("{epochs}", "2")))


def drive(store: Store, engine: PretendEngine, board: Board | None = None, **options):
    return run_study(RUNS, store, engine, board or Board(io.StringIO()), StudyOptions(**options))


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


def audited(job: Job) -> RunResult:
    """A record that has a report, as far as the store can see."""
    return RunResult(b"weights", record(job.spec).to_json())


@pytest.fixture
def reports(monkeypatch):
    """Let every committed run count as audited."""
    monkeypatch.setattr(Store, "unaudited", lambda self, key: False)


def test_every_run_is_done_once_and_the_second_call_does_nothing(store, reports):
    first = drive(store, PretendEngine())
    assert sorted(first.done) == sorted(RUNS)
    second = PretendEngine()
    assert drive(store, second).reused == list(RUNS)
    assert second.jobs == []


def test_data_are_loaded_before_the_first_run_of_a_store_and_left_to_the_workers_afterwards(
    store, reports, monkeypatch
):
    loaded = []
    monkeypatch.setattr("creditscope.runs.run.load_plugins", lambda spec: loaded.append(spec.data))
    execute(RUNS, store, PretendEngine(), StudyOptions())
    assert loaded == ["mnist1d"]
    shutil.rmtree(store.place(next(iter(RUNS))))
    again = PretendEngine()
    execute(RUNS, Store(store.folder), again, StudyOptions())
    assert len(again.jobs) == 1
    assert loaded == ["mnist1d"]


def test_failures_are_kept_and_done_again_on_request_only(store, reports):
    assert sorted(drive(store, PretendEngine(failing())).failed) == sorted(RUNS)
    again = PretendEngine()
    assert len(drive(store, again).failed) == 12
    assert again.jobs == []
    assert len(drive(store, PretendEngine(), retry=True).done) == 12
    assert study_status(RUNS, store).counts[RunState.FAILED] == 0


def test_a_network_that_could_not_be_audited_is_kept_with_the_reason(store):
    error = RunError("NotTheGradient: no", "Traceback", "audit")
    drive(store, PretendEngine(lambda job: replace(audited(job), error=error)))
    key = next(iter(RUNS))
    assert store.ended(key) is RunState.FAILED
    assert (store.failure(key).stage, store.failure(key).attempts) == ("audit", 1)
    drive(store, PretendEngine(lambda job: replace(audited(job), error=error)), retry=True)
    assert store.failure(key).attempts == 2
    engine = PretendEngine()
    drive(store, engine, retry=True)
    assert all(job.trained == store.folder / job.key for job in engine.jobs)  # audited again, not trained again


def test_finished_runs_without_a_report_are_audited_not_trained(store):
    store.prepare()
    key = next(iter(RUNS))
    store.commit(key, b"weights", record(RUNS[key]))
    engine = PretendEngine()
    drive(store, engine)
    assert [job.key for job in engine.jobs if job.trained is not None] == [key]


def test_audit_again_takes_up_every_finished_run_with_weights(store, reports):
    drive(store, PretendEngine())
    engine = PretendEngine()
    drive(store, engine, audit_again=True)
    assert len([job for job in engine.jobs if job.trained is not None]) == 12


def test_a_run_in_other_hands_is_left_to_them_and_taken_up_when_they_let_go(store, reports):
    store.prepare()
    key = next(iter(RUNS))
    lock = store.lock(key)
    engine = PretendEngine()

    def answer(job: Job) -> RunResult:
        if len(engine.jobs) == 11:
            lock.release()
        return audited(job)

    engine.answer = answer
    summary = drive(store, engine)
    assert [job.key for job in engine.jobs][-1] == key
    assert sorted(summary.done) == sorted(RUNS)


def test_a_run_that_others_finished_meanwhile_is_not_done_again(store, reports):
    store.prepare()
    key = next(iter(RUNS))
    lock = store.lock(key)
    engine = PretendEngine()

    def answer(job: Job) -> RunResult:
        if len(engine.jobs) == 11:
            store.commit(key, b"theirs", record(RUNS[key]))
            lock.release()
        return audited(job)

    engine.answer = answer
    summary = drive(store, engine)
    assert key in summary.reused
    assert key not in {job.key for job in engine.jobs}
    assert (store.folder / key / "weights.safetensors").read_bytes() == b"theirs"


def test_a_full_disk_stops_the_study_and_blames_no_run(store, reports):
    done = list(RUNS)[:2]
    error = RunError("BadFile: KEY.snapshot cannot be written: No space left on device", "", lacking="disk")
    engine = PretendEngine(lambda job: audited(job) if job.key in done else RunResult(error=error))
    with pytest.raises(NoRoom, match="The study stops: BadFile: KEY.snapshot cannot be written: No space left"):
        drive(store, engine)
    assert engine.stopped
    counts = study_status(RUNS, store).counts
    assert (counts[RunState.DONE], counts[RunState.FAILED], counts[RunState.RUNNING]) == (2, 0, 0)
    assert not list(store.folder.glob("*.lock"))


def test_a_store_without_permission_stops_the_study_with_words_of_its_own(store, reports):
    error = RunError("BadFile: KEY.snapshot cannot be written: Permission denied.", "", lacking="permission")
    engine = PretendEngine(lambda job: RunResult(error=error))
    with pytest.raises(BadFile, match="Permission denied(?s:.*)Check the permissions of the store") as raised:
        drive(store, engine)
    assert raised.value.exit_code == 2
    assert "Make room" not in str(raised.value)
    assert engine.stopped
    assert not list(store.folder.glob("*.failed.json")) + list(store.folder.glob("*.lock"))


def test_data_that_are_gone_stop_the_study_and_blame_no_run_unless_it_ran_elsewhere(store, reports):
    error = RunError("mnist cannot be had.", "", lacking="data")
    engine = PretendEngine(lambda job: RunResult(error=error))
    with pytest.raises(DataUnavailable, match="The study stops: mnist cannot be had"):
        drive(store, engine)
    assert engine.stopped
    assert not list(store.folder.glob("*.failed.json")) + list(store.folder.glob("*.lock"))
    engine = PretendEngine(lambda job: RunResult(error=error))
    engine.local = False
    assert len(drive(store, engine).failed) == len(RUNS)


def test_a_run_out_of_memory_is_no_failure_and_the_same_command_tries_it_again(store, reports):
    hungry = next(iter(RUNS))
    error = RunError("The machine ran out of memory.", "", lacking="memory")
    summary = drive(store, PretendEngine(lambda job: RunResult(error=error) if job.key == hungry else audited(job)))
    assert (summary.starved, summary.failed, len(summary.done)) == ([hungry], [], len(RUNS) - 1)
    assert not list(store.folder.glob("*.failed.json"))
    text = closing(summary, RUNS, store)
    assert "0 failed, 1 out of memory." in text
    assert "resume with the same command" in text
    assert drive(store, PretendEngine(audited)).done == [hungry]


def test_an_interrupt_leaves_no_lock_and_keeps_every_finished_run(store, reports):
    engine = PretendEngine()

    def answer(job: Job) -> RunResult:
        if len(engine.jobs) > 4:
            raise KeyboardInterrupt
        return audited(job)

    engine.answer = answer
    with pytest.raises(KeyboardInterrupt):
        drive(store, engine)
    assert engine.stopped
    assert study_status(RUNS, store).counts[RunState.DONE] == 4
    assert not list(store.folder.glob("*.lock"))


def test_plain_lines_say_what_ended_and_how_much_is_left(store, reports):
    text = io.StringIO()
    key = next(iter(RUNS))
    drive(store, PretendEngine(lambda job: failing("E: a\nb")(job) if job.key == key else audited(job)), Board(text))
    lines = text.getvalue().splitlines()
    assert lines[0] == "12 runs: 0 done, 12 to run, 2 in parallel"
    assert f"[ 1/12] FAILED  {key}  bp, seed 1: E: a" in lines[1]
    assert "accuracy 0.5000, 10 s left" in lines[2]  # ten more of two seconds each, two at a time
    assert lines[-1].startswith("[12/12] done ")


def test_failed_runs_that_are_not_run_again_count_as_ended(store, reports):
    key, other, *_ = RUNS
    drive(store, PretendEngine(lambda job: failing()(job) if job.key == key else audited(job)))
    shutil.rmtree(store.place(other))
    text = io.StringIO()
    drive(store, PretendEngine(), Board(text))
    lines = text.getvalue().splitlines()
    assert lines[0] == "12 runs: 10 done, 1 failed, 1 to run, 2 in parallel"
    assert lines[1].startswith(f"[12/12] done    {other}")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_board_shows_a_bar_per_run_and_the_whole(store, reports):
    text = Terminal()
    with LiveBoard(text) as board:
        drive(store, PretendEngine(), board)
    shown = text.getvalue()
    assert "the study" in shown
    assert "12/12 runs" in shown
    assert "[12/12] done" in shown
