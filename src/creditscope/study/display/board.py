"""The board of a running study: live progress bars on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from creditscope.records.labels import counted
from creditscope.study.plan import Plan, run_labels
from creditscope.study.status import Kind, Pace, duration, kind_of
from creditscope.terminal import one_line, printable

if TYPE_CHECKING:
    from creditscope.records.run import RunRecord


class Board:
    """Plain lines, one for each run that ends; the live board keeps the same counts."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._runs: Plan = {}
        self._epochs: dict[str, int] = {}  # epochs done, by the key of a run under way
        self._started: dict[str, float] = {}
        self._waiting: dict[str, None] = {}
        self._epochs_waiting: Counter[Kind] = Counter()  # epochs of the runs that wait, by kind
        self._pace, self._workers, self.ended = Pace(), 1, 0

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Plain lines leave nothing to restore."""

    def begin(self, runs: Plan, done: int, failed: int, pace: Pace, workers: int) -> None:
        """Begin a study of which some runs are done, and some have failed and are not run again."""
        self._runs = runs
        self._pace, self._workers, self.ended = pace, workers, done + failed
        self.line(f"{tally(len(runs), done, failed)}, {workers} in parallel")

    @cached_property
    def _labels(self) -> dict[str, str]:
        """By key; made when the first run ends, since those of thousands take longer than it takes to start one."""
        return run_labels(self._runs)

    def wait_for(self, keys: Iterable[str]) -> None:
        """Set the runs that have not started yet."""
        self._waiting, self._epochs_waiting = dict.fromkeys(keys), Counter()
        for key in self._waiting:
            self._epochs_waiting[kind_of(self._runs[key])] += self._runs[key].epochs

    def _waits_no_longer(self, key: str) -> None:
        if key in self._waiting:
            del self._waiting[key]
            self._epochs_waiting[kind_of(self._runs[key])] -= self._runs[key].epochs

    def start(self, key: str) -> None:
        """A run starts."""
        self._epochs[key], self._started[key] = 0, time.monotonic()
        self._waits_no_longer(key)

    def epoch(self, key: str, done: int) -> None:
        """A run has finished an epoch, `done` in all."""
        self._epochs[key] = done

    def done(self, key: str, record: RunRecord) -> None:
        """A run has finished."""
        self._pace.learn(self._runs[key], record.timings.get("seconds", 0.0))
        stopped = "" if record.diverged is None else f", diverged in epoch {record.diverged.epoch + 1}"
        self._end(key, f"done    {key}  {self._labels[key]}: accuracy {record.accuracy:.4f}{stopped}")

    def failed(self, key: str, error: str) -> None:
        """A run has failed."""
        self._end(key, f"FAILED  {key}  {self._labels[key]}: {error.splitlines()[0]}")

    def ended_elsewhere(self, key: str, failed: bool) -> None:
        """Another process has ended a run."""
        self._waits_no_longer(key)
        self._end(key, f"{'FAILED' if failed else 'done'} in another process  {key}  {self._labels[key]}")

    def _end(self, key: str, text: str) -> None:
        self.ended += 1
        for table in (self._epochs, self._started):
            table.pop(key, None)
        total = len(self._runs)
        self.line(f"[{self.ended:>{len(str(total))}}/{total}] {text}{_left(self.seconds_left())}")

    def seconds_left(self) -> float | None:
        """Seconds until the end, with all workers busy."""
        left = self._epochs_waiting.copy()
        for key, done in self._epochs.items():
            left[kind_of(self._runs[key])] += self._runs[key].epochs - done
        seconds = self._pace.total(left)
        return None if seconds is None else seconds / self._workers

    def line(self, text: str) -> None:
        """Write one line."""
        with suppress(OSError, ValueError):  # a study does not end because nobody can be told
            self._stream.write(printable(text) + "\n")
            self._stream.flush()

    def refresh(self) -> None:
        """Update what changes with time; called several times a second."""


class LiveBoard(Board):
    """A bar for each running job and one for the study, above which finished runs scroll away."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn
        from rich.table import Column

        self._bars = Progress(
            TextColumn(
                "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
            ),
            BarColumn(30),
            TextColumn("{task.completed}/{task.total} {task.fields[unit]}"),
            TextColumn("{task.fields[left]}"),
            console=Console(file=self._stream),
            refresh_per_second=4,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> Board:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def begin(self, runs: Plan, done: int, failed: int, pace: Pace, workers: int) -> None:
        """Add the bar of the study."""
        super().begin(runs, done, failed, pace, workers)
        unit = "run" if len(runs) == 1 else "runs"
        self._tasks["study"] = self._bars.add_task(
            "the study", total=len(runs), completed=self.ended, unit=unit, left=""
        )

    def start(self, key: str) -> None:
        """Add a bar."""
        super().start(key)
        epochs = self._runs[key].epochs
        unit = "epoch" if epochs == 1 else "epochs"
        self._tasks[key] = self._bars.add_task(one_line(self._labels[key]), total=epochs, unit=unit, left="")

    def epoch(self, key: str, done: int) -> None:
        """Advance the bar of a run."""
        super().epoch(key, done)
        if key in self._tasks:
            taken = time.monotonic() - self._started[key]
            left = taken / max(1, done) * (self._runs[key].epochs - done)  # at the run's own pace so far
            self._bars.update(self._tasks[key], completed=done, left=_left(left).lstrip(", "))

    def _end(self, key: str, text: str) -> None:
        if key in self._tasks:
            self._bars.remove_task(self._tasks.pop(key))
        super()._end(key, text)

    def line(self, text: str) -> None:
        """Write one line above the bars."""
        self._bars.print(printable(text), markup=False, highlight=False)

    def refresh(self) -> None:
        """Update the bar of the study."""
        if "study" in self._tasks:
            left = _left(self.seconds_left()).lstrip(", ")
            self._bars.update(self._tasks["study"], completed=self.ended, left=left)


def tally(total: int, done: int, failed: int) -> str:
    """The runs of a study before it starts; `failed` are those that are not run again."""
    left = f", {failed} failed" if failed else ""
    return f"{counted(total, 'run')}: {done} done{left}, {total - done - failed} to run"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", {duration(seconds)} left"


def board(stream: TextIO | None = None) -> Board:
    """A live board on a terminal, plain lines elsewhere."""
    stream = stream or sys.stderr
    return LiveBoard(stream) if stream.isatty() else Board(stream)
