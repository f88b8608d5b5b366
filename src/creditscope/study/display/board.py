"""What does somebody see who waits for a study?  A live board on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from creditscope.runs.spec import RunSpec
from creditscope.study.status import Pace, duration

if TYPE_CHECKING:
    from creditscope.records.run import RunRecord


class Board:
    """Plain lines, one per run that begins or ends; also what the live board knows and counts."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._specs: dict[str, RunSpec] = {}
        self._epochs: dict[str, int] = {}
        self._left: list[RunSpec] = []
        self._begun: dict[str, float] = {}
        self._pace, self._workers, self.total, self.ended = Pace(), 1, 0, 0

    def __enter__(self) -> Board:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing to put back."""

    def begin(self, total: int, ended: int, pace: Pace, workers: int) -> None:
        """So many runs, so many of them there already."""
        self.total, self.ended, self._pace, self._workers = total, ended, pace, workers
        self.line(f"{total} runs: {ended} are there, {total - ended} to go, {workers} at a time")

    def left(self, specs: Iterable[RunSpec]) -> None:
        """The runs that are still to begin."""
        self._left = list(specs)

    def started(self, key: str, spec: RunSpec) -> None:
        """A run begins."""
        self._specs[key], self._epochs[key], self._begun[key] = spec, 0, time.monotonic()
        self._left = [other for other in self._left if other != spec]

    def epoch(self, key: str, done: int) -> None:
        """A run has done so many epochs."""
        self._epochs[key] = done

    def done(self, key: str, spec: RunSpec, record: RunRecord) -> None:
        """A run has ended well."""
        self._pace.learn(spec, record.timings.get("seconds", 0.0))
        stopped = "" if record.diverged is None else f", diverged in epoch {record.diverged.epoch + 1}"
        self._end(key, f"done    {key}  {spec.title}: accuracy {record.accuracy:.4f}{stopped}")

    def failed(self, key: str, spec: RunSpec, error: str) -> None:
        """A run has ended badly."""
        self._end(key, f"FAILED  {key}  {spec.title}: {error.splitlines()[0]}")

    def found(self, key: str, spec: RunSpec, failed: bool) -> None:
        """Another process has ended a run."""
        self._left = [other for other in self._left if other != spec]
        self._end(key, f"{'FAILED' if failed else 'done'} elsewhere  {key}  {spec.title}")

    def _end(self, key: str, text: str) -> None:
        self.ended += 1
        for table in (self._specs, self._epochs, self._begun):
            table.pop(key, None)
        left = self.seconds_left()
        self.line(f"[{self.ended:>{len(str(self.total))}}/{self.total}] {text}{_left(left)}")

    def seconds_left(self) -> float | None:
        """Seconds until the end, with all workers busy."""
        under_way = [(spec, spec.epochs - self._epochs[key]) for key, spec in self._specs.items()]
        seconds = self._pace.total([*under_way, *((spec, spec.epochs) for spec in self._left)])
        return None if seconds is None else seconds / self._workers

    def line(self, text: str) -> None:
        """One line for the record."""
        self._stream.write(text + "\n")
        self._stream.flush()

    def refresh(self) -> None:
        """Called several times a second."""


class LiveBoard(Board):
    """A bar per running job and one for the whole, above which finished runs scroll away."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__(stream)
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._console = Console(file=self._stream)
        self._bars = Progress(
            TextColumn("{task.description}", table_column=_wide()),
            BarColumn(30),
            TextColumn("{task.completed}/{task.total} {task.fields[unit]}"),
            TextColumn("{task.fields[left]}"),
            console=self._console,
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

    def begin(self, total: int, ended: int, pace: Pace, workers: int) -> None:
        """The bar for the whole study."""
        super().begin(total, ended, pace, workers)
        self._tasks["study"] = self._bars.add_task("the study", total=total, completed=ended, unit="runs", left="")

    def started(self, key: str, spec: RunSpec) -> None:
        """A new bar."""
        super().started(key, spec)
        self._tasks[key] = self._bars.add_task(f"{spec.title}", total=spec.epochs, unit="epochs", left="")

    def epoch(self, key: str, done: int) -> None:
        """The bar moves."""
        super().epoch(key, done)
        if key in self._tasks:
            self._bars.update(self._tasks[key], completed=done, left=_left(self._own_left(key, done)).lstrip(", "))

    def _own_left(self, key: str, done: int) -> float:
        """From the run's own pace so far."""
        taken = time.monotonic() - self._begun[key]
        return taken / max(1, done) * (self._specs[key].epochs - done)

    def _end(self, key: str, text: str) -> None:
        if key in self._tasks:
            self._bars.remove_task(self._tasks.pop(key))
        super()._end(key, text)

    def line(self, text: str) -> None:
        """Above the bars."""
        self._bars.print(text, markup=False, highlight=False)

    def refresh(self) -> None:
        """The whole study's bar."""
        if "study" in self._tasks:
            left = _left(self.seconds_left()).lstrip(", ")
            self._bars.update(self._tasks["study"], completed=self.ended, left=left)


def _wide() -> Any:
    from rich.table import Column

    return Column(ratio=1, no_wrap=True, overflow="ellipsis")


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f", {duration(seconds)} left"


def board(stream: TextIO | None = None) -> Board:
    """The board that fits where it is shown."""
    stream = stream or sys.stderr
    return LiveBoard(stream) if stream.isatty() else Board(stream)
