"""The progress of one training run: a live bar on a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from creditscope.terminal import complain, one_line

if TYPE_CHECKING:
    from creditscope.records.run import HistoryRow

LINES = 10  # plain lines of a run, about


class Watcher(Protocol):
    """Called after every epoch."""

    def __call__(self, row: HistoryRow) -> None:
        """Show one epoch."""
        ...


def summary(row: HistoryRow, epochs: int) -> str:
    """One line: epoch, loss, accuracy and the scale of the stream."""
    return (
        f"epoch {row.epoch + 1:>{len(str(epochs))}}/{epochs}  loss {row.loss:.3f}  accuracy {row.accuracy:.3f}  "
        f"‖h_L‖ {row.hidden_norms[-1]:.3g}"
    )


@contextmanager
def watching(title: str, epochs: int) -> Iterator[Watcher]:
    """A watcher for `fit(on_epoch=)`."""
    if not sys.stderr.isatty():
        yield _lines(title, epochs)
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(None),
        TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(one_line(title), total=epochs, state="")

        def update(row: HistoryRow) -> None:
            progress.update(task, completed=row.epoch + 1, state=summary(row, epochs))

        yield update


def _lines(title: str, epochs: int) -> Watcher:
    started, first = time.monotonic(), -1
    complain(title)

    def write(row: HistoryRow) -> None:
        nonlocal first
        first = row.epoch if first < 0 else first
        done = row.epoch + 1
        if done % max(1, epochs // LINES) and done not in (first + 1, epochs):
            return
        left = (time.monotonic() - started) / (done - first) * (epochs - done)
        complain(f"  {summary(row, epochs)}  {left:.0f} s left")

    return write
