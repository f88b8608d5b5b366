"""The driver of a study: lock each run, hand it to an engine, keep the result; runs locked elsewhere come last."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from creditscope.errors import BadFile, DataUnavailable, NoRoom
from creditscope.records.run import RunRecord
from creditscope.study.display.board import Board
from creditscope.study.engines.engine import Engine, EpochDone, RunEnded
from creditscope.study.engines.job import Job, RunError, RunResult
from creditscope.study.failure import Failure
from creditscope.study.lock import RunLock
from creditscope.study.plan import Plan
from creditscope.study.status import learn_pace
from creditscope.study.store import RunState, Store

POLL = 0.2  # seconds between two polls of the engine
POLL_ELSEWHERE = 1.0  # seconds between two polls of runs that other processes execute


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """How the runs of a study are executed.

    retry               run failed runs again
    audit_again         audit finished runs of the store again, from their weights
    credit_of_controls  probe the credit of controls too; ρ costs more than a short run
    stack               how many runs that differ only in seed, learning rate, penalty or feedback train at once
    """

    retry: bool = False
    audit_again: bool = False
    device: str = "cpu"
    data_folder: Path | None = None
    snapshot_seconds: float = 30.0
    credit_of_controls: bool = True
    stack: int = 1

    def asks_for(self, key: str, state: RunState, store: Store) -> bool:
        """Whether a run that ended in this state is to be trained, audited or tried again."""
        if state is RunState.FAILED:
            return self.retry
        if state is RunState.DONE:
            again = self.audit_again and store.trained(key) is not None
            return again or store.unaudited(key)
        return True


@dataclass(slots=True)
class Summary:
    """Keys by what became of the runs: executed now, done before or by another process, failed, out of memory."""

    done: list[str] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    starved: list[str] = field(default_factory=list)


def run_study(runs: Plan, store: Store, engine: Engine, board: Board, options: StudyOptions) -> Summary:
    """Execute the runs of a study that are not done; an exception, Ctrl-C included, leaves finished runs in place."""
    store.prepare()
    drive = _Drive(runs, store, engine, board, options)
    try:
        drive.run()
    except BaseException:
        engine.stop()  # before the locks are released: a worker may be writing a snapshot
        raise
    finally:
        drive.release()
    return drive.summary


class _Drive:
    """One call of `run_study`: the runs that wait, those that it holds, and those that other processes hold."""

    def __init__(self, runs: Plan, store: Store, engine: Engine, board: Board, options: StudyOptions) -> None:
        self.runs, self.store, self.engine, self.board, self.options = runs, store, engine, board, options
        ended = store.ended_states(runs)
        self.waiting = deque(key for key, state in ended.items() if options.asks_for(key, state, store))
        self.held: dict[str, RunLock] = {}
        self.elsewhere: list[str] = []
        waiting = set(self.waiting)
        settled = {key: state for key, state in ended.items() if key not in waiting}
        self.summary = Summary(
            reused=[key for key, state in settled.items() if state is RunState.DONE],
            failed=[key for key, state in settled.items() if state is RunState.FAILED],
        )
        done, failed = len(self.summary.reused), len(self.summary.failed)
        board.begin(runs, done, failed, learn_pace(runs, store, self.summary.reused), engine.workers)
        board.wait_for(self.waiting)
        if options.stack > 1 and not engine.stacks:
            board.line("Here every run is trained by itself: only processes of this machine train stacks.")

    def run(self) -> None:
        polled = 0.0
        while self.waiting or self.held or self.elsewhere:
            while self.waiting and self.engine.free > 0:
                self._start(self.waiting.popleft())
            for event in self.engine.events(POLL):
                self._epoch(event) if isinstance(event, EpochDone) else self._end(event)
            if self.elsewhere and time.monotonic() - polled > POLL_ELSEWHERE:
                self.waiting.extend(self.elsewhere)
                self.elsewhere, polled = [], time.monotonic()
            if not self.held:
                time.sleep(POLL if self.elsewhere else 0)
            self.board.refresh()

    def release(self) -> None:
        """Release every lock."""
        for lock in self.held.values():
            lock.release()
        self.held = {}

    def _start(self, key: str) -> None:
        """Start a run, and with it those that are trained as one stack with it."""
        jobs = [job for one in self._stacked_with(key) if (job := self._locked(one)) is not None]
        if jobs:
            self.engine.start(replace(jobs[0], beside=tuple(jobs[1:])))
        for job in jobs:
            self.board.start(job.key)

    def _stacked_with(self, key: str) -> list[str]:
        """The run, and the waiting ones of its form, which wait no longer."""
        if self.options.stack == 1 or not self.engine.stacks or self.store.trained(key) is not None:
            return [key]
        forms = self._forms
        beside = [] if forms[key] is None else [one for one in self.waiting if forms[one] == forms[key]]
        chosen = [one for one in beside if self.store.trained(one) is None][: self.options.stack - 1]
        for one in chosen:
            self.waiting.remove(one)
        return [key, *chosen]

    @cached_property
    def _forms(self) -> dict[str, str | None]:
        """The form of every run, where runs of one form are trained at once; imports torch."""
        from creditscope.runs.stack import stack_form

        return {key: stack_form(spec) for key, spec in self.runs.items()}

    def _locked(self, key: str) -> Job | None:
        """Lock a run; None if another process holds it or has ended it in the meantime."""
        lock = self.store.lock(key)
        if lock is None:
            self.elsewhere.append(key)
            return None
        state = self.store.ended(key)
        if not self.options.asks_for(key, state, self.store):
            lock.release()
            failed = state is RunState.FAILED
            (self.summary.failed if failed else self.summary.reused).append(key)
            self.board.ended_elsewhere(key, failed)
            return None
        lock.write_progress(0, self.runs[key].epochs)
        self.held[key] = lock
        for notice in self.store.recover(key):
            self.board.line(notice)
        return self._job(key)

    def _job(self, key: str) -> Job:
        return Job(
            key,
            self.runs[key],
            snapshot=self.store.snapshot(key),
            trained=self.store.trained(key),
            snapshot_seconds=self.options.snapshot_seconds,
            data_folder=self.options.data_folder,
            device=self.options.device,
            credit_of_controls=self.options.credit_of_controls,
        )

    def _epoch(self, event: EpochDone) -> None:
        self.held[event.key].write_progress(event.done, self.runs[event.key].epochs)
        self.board.epoch(event.key, event.done)

    def _end(self, event: RunEnded) -> None:
        """Keep the result or the failure, then release the lock."""
        key, result = event.key, event.result
        if result.error is not None:
            self._check_others_can_run(result.error)
        before = self.store.failure(key)
        if result.record:
            self._keep(key, result)
        if result.error is not None and result.error.lacking == "memory":
            self.summary.starved.append(key)  # no failure of the run: the same command tries it again
            self.board.failed(key, result.error.message)
        elif result.error is not None:
            self._fail(key, result.error, before)
        self.held.pop(key).release()

    def _check_others_can_run(self, error: RunError) -> None:
        """Stop the study for an error that no run is to blame for, and that every other run would meet."""
        stops = f"The study stops: {error.message}"
        others = "Every other run would fail in the same way. Finished runs are kept."
        if error.lacking == "disk":
            raise NoRoom(f"{stops}\n{others} Make room, then run the same command again.")
        if error.lacking == "permission":
            raise BadFile(
                f"{stops}\n{others} Check the permissions of the store and of the datasets, or choose another --store."
            )
        if error.lacking == "data" and self.engine.local:  # another machine may have them
            raise DataUnavailable(stops)

    def _keep(self, key: str, result: RunResult) -> None:
        record = RunRecord.parse(result.record, f"the result of {key}")
        if self.store.trained(key) is not None:
            self.store.amend(key, record)
        else:
            self.store.commit(key, result.weights, record)
        if result.error is None:
            self.summary.done.append(key)
            self.board.done(key, record)

    def _fail(self, key: str, error: RunError, before: Failure | None) -> None:
        spec = self.runs[key].model_dump(mode="json")
        failure = Failure(key=key, spec=spec, stage=error.stage, error=error.message, traceback=error.traceback)
        self.store.fail(failure, before)
        self.summary.failed.append(key)
        self.board.failed(key, error.message)
