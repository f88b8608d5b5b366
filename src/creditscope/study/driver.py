"""The driver of a study: lock each run, hand it to an engine, keep the result; runs locked elsewhere come last."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field, replace

from creditscope.errors import BadFile
from creditscope.records.run import RunRecord
from creditscope.study.display.board import Board
from creditscope.study.engines.engine import Engine, EpochDone, RunEnded
from creditscope.study.engines.job import Job, RunResult
from creditscope.study.lock import RunLock
from creditscope.study.plan import Plan
from creditscope.study.status import learn_pace
from creditscope.study.store import Failure, RunState, Store

LOOK = 0.2  # seconds between two looks at the engine
LOOK_ELSEWHERE = 1.0  # seconds between two looks at runs that other processes do


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """What a user asks of a study besides its runs.

    retry       do failed runs again
    audit_again audit finished runs of the store again, from their weights
    pattern     the job of which every job is a copy: device, data folder, seconds between snapshots
    """

    pattern: Job
    retry: bool = False
    audit_again: bool = False


@dataclass(slots=True)
class Summary:
    """What a call of `run_study` did."""

    done: list[str] = field(default_factory=list)
    found: list[str] = field(default_factory=list)  # there already, or done by another process meanwhile
    failed: list[str] = field(default_factory=list)


def run_study(runs: Plan, store: Store, engine: Engine, board: Board, options: StudyOptions) -> Summary:
    """Do whatever of a study is not done; an exception, Ctrl-C included, leaves every finished run in place."""
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
    """One call: what waits, what is held, and what is in other hands."""

    def __init__(self, runs: Plan, store: Store, engine: Engine, board: Board, options: StudyOptions) -> None:
        self.runs, self.store, self.engine, self.board, self.options = runs, store, engine, board, options
        self.summary = Summary()
        self.waiting = deque(key for key in runs if self._wanted(key))
        self.held: dict[str, RunLock] = {}
        self.elsewhere: list[str] = []
        waiting = set(self.waiting)
        self.summary.found = [key for key in runs if key not in waiting and store.ended(key) is RunState.DONE]
        self.summary.failed = [key for key in runs if key not in waiting and store.ended(key) is RunState.FAILED]
        board.begin(len(runs), len(self.summary.found), learn_pace(runs, store, self.summary.found), engine.workers)
        board.left([runs[key] for key in self.waiting])

    def run(self) -> None:
        looked = 0.0
        while self.waiting or self.held or self.elsewhere:
            while self.waiting and self.engine.free > 0:
                self._begin(self.waiting.popleft())
            for event in self.engine.events(LOOK):
                self._epoch(event) if isinstance(event, EpochDone) else self._end(event)
            if self.elsewhere and time.monotonic() - looked > LOOK_ELSEWHERE:
                self.waiting.extend(self.elsewhere)
                self.elsewhere, looked = [], time.monotonic()
            if not self.held:
                time.sleep(LOOK if self.elsewhere else 0)
            self.board.refresh()

    def release(self) -> None:
        """Release every lock."""
        for lock in self.held.values():
            lock.release()
        self.held = {}

    def _wanted(self, key: str) -> bool:
        """Whether there is something to do: train, audit, or try again."""
        state = self.store.ended(key)
        if state is RunState.FAILED:
            return self.options.retry
        if state is RunState.DONE:
            again = self.options.audit_again and self.store.trained(key) is not None
            return again or self.store.unaudited(key)
        return True

    def _begin(self, key: str) -> None:
        """Lock a run and start it, unless another process holds it or has finished it in the meantime."""
        lock = self.store.lock(key)
        if lock is None:
            self.elsewhere.append(key)
            return
        if not self._wanted(key):
            lock.release()
            self._found(key)
            return
        spec = self.runs[key]
        lock.write_progress(0, spec.epochs)
        self.held[key] = lock
        self.engine.start(
            replace(
                self.options.pattern,
                key=key,
                spec=spec,
                snapshot=self.store.snapshot(key),
                trained=self.store.trained(key),
            )
        )
        self.board.started(key, spec)

    def _found(self, key: str) -> None:
        """Another process has ended it."""
        failed = self.store.ended(key) is RunState.FAILED
        (self.summary.failed if failed else self.summary.found).append(key)
        self.board.found(key, self.runs[key], failed)

    def _epoch(self, event: EpochDone) -> None:
        self.held[event.key].write_progress(event.done, self.runs[event.key].epochs)
        self.board.epoch(event.key, event.done)

    def _end(self, event: RunEnded) -> None:
        """Keep the result or the failure, then release the lock."""
        key, result = event.key, event.result
        if result.error is not None and result.error.fatal:
            raise BadFile(
                f"The study stops: {result.error.message}\n"
                "Every other run would meet the same. What is done is kept. Make room, then run the same command again."
            )
        if result.record:
            self._keep(key, result)
        if result.error is not None:
            error = result.error
            spec = self.runs[key].model_dump(mode="json")
            self.store.fail(
                Failure(key=key, spec=spec, stage=error.stage, error=error.message, traceback=error.traceback)
            )
            self.summary.failed.append(key)
            self.board.failed(key, self.runs[key], error.message)
        self.held.pop(key).release()

    def _keep(self, key: str, result: RunResult) -> None:
        record = RunRecord.model_validate_json(result.record)
        if self.store.trained(key) is not None:
            self.store.amend(key, record)
        else:
            self.store.commit(key, result.weights, record)
        if result.error is None:
            self.summary.done.append(key)
            self.board.done(key, self.runs[key], record)
