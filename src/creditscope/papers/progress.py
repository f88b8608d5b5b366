"""The list of experiments: runs done, and the estimated time left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.table import Table

from creditscope.papers.archive import RunArchive
from creditscope.records.labels import counted
from creditscope.study.display.table import drawn
from creditscope.study.engines.engine import cores
from creditscope.study.plan import Plan
from creditscope.study.status import Kind, Pace, duration, kind_of, learn_pace
from creditscope.study.store import RunState


def listing(archive: RunArchive, width: int, workers: int | None, names: Sequence[str] = ()) -> str:
    """A line for every experiment, or for those named, then the total; a run that two of them share counts once."""
    parallel, listed = workers or cores(), list(names or archive.paper.names)
    everything: Plan = {}
    for name in listed:
        everything |= archive.plan(name)
    done = [key for key in everything if archive.store.ended(key) is RunState.DONE]
    pace = learn_pace(everything, archive.store, done)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("", "experiment", "question", "runs", "state", "time left"):
        table.add_column(heading, no_wrap=heading != "question")
    for name in listed:
        table.add_row(*_row(name, archive, pace, parallel))
    left = _left(everything, archive, pace, parallel)
    head = (
        f"{archive.paper.citation}\nBudget {archive.budget}, {counted(parallel, 'run')} in parallel; "
        "times are estimated from finished runs."
    )
    total = f"{len(done)} of {counted(len(everything), 'run')} done; time left: {left}."
    return f"{head}\n\n{drawn(table, width)}\n\n{total}"


def _row(name: str, archive: RunArchive, pace: Pace, workers: int) -> tuple[str, ...]:
    runs = archive.plan(name)
    done = sum(archive.store.ended(key) is RunState.DONE for key in runs)
    state = "done" if done == len(runs) else "not run" if not done else "partly"
    return (
        str(archive.paper.number(name)),
        name,
        archive.paper.experiment(name).question,
        f"{done}/{len(runs)}",
        state,
        _left(runs, archive, pace, workers) if done < len(runs) else "",
    )


def _left(runs: Plan, archive: RunArchive, pace: Pace, workers: int) -> str:
    missing: Counter[Kind] = Counter()
    for key, spec in runs.items():
        if archive.store.ended(key) is not RunState.DONE:
            missing[kind_of(spec)] += spec.epochs
    seconds = pace.total(missing)
    return "unknown: no run has finished" if seconds is None else duration(seconds / workers)
