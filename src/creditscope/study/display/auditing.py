"""The progress of an audit: a live line on a terminal, nothing anywhere else."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from creditscope.progress import Step, listening
from creditscope.terminal import one_line


@contextmanager
def watching_audit(title: str) -> Iterator[None]:
    """Show the steps that are taken inside; the line goes away at the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(one_line(title), total=None, state="")

        def show(step: Step) -> None:
            if step.done == step.total:
                return  # the next step follows; a task that is complete would stop its clock
            state = f"{step.done}" if step.total is None else f"{step.done}/{step.total}"
            progress.update(task, description=one_line(step.name), completed=step.done, total=step.total, state=state)

        with listening(show):
            yield
