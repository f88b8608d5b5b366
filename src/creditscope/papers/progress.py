"""How far is each experiment?  Runs done, and the time that the others will take."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.table import Table

from creditscope.papers.book import Book
from creditscope.papers.experiments import Experiment, in_order
from creditscope.study.display.page import drawn
from creditscope.study.engines.engine import cores
from creditscope.study.plan import Plan
from creditscope.study.status import Pace, duration, learn_pace
from creditscope.study.store import RunState


def listing(book: Book, width: int, workers: int | None, names: Sequence[str] = ()) -> str:
    """A line for every experiment, or for those named, then together; a run that two of them share counts once."""
    number, shown = workers or cores(), [one for one in in_order() if not names or one.name in names]
    everything: Plan = {}
    for one in shown:
        everything |= book.plan(one.name)
    done = [key for key in everything if book.store.ended(key) is RunState.DONE]
    pace = learn_pace(everything, book.store, done)
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("", "experiment", "question", "runs", "state", "time left"):
        table.add_column(heading, no_wrap=heading != "question")
    for one in shown:
        table.add_row(*_row(one, book, pace, number))
    left = _left(everything, book, pace, number)
    head = f"Budget {book.budget}, {number} runs at a time; times go by what finished runs took."
    return f"{head}\n\n{drawn(table, width)}\n\n{len(done)} of {len(everything)} runs are done; time left: {left}."


def _row(one: Experiment, book: Book, pace: Pace, workers: int) -> tuple[str, ...]:
    runs = book.plan(one.name)
    done = sum(book.store.ended(key) is RunState.DONE for key in runs)
    state = "done" if done == len(runs) else "not run" if not done else "partly"
    return (
        str(one.number),
        one.name,
        one.question,
        f"{done}/{len(runs)}",
        state,
        _left(runs, book, pace, workers) if done < len(runs) else "",
    )


def _left(runs: Plan, book: Book, pace: Pace, workers: int) -> str:
    missing = [(spec, spec.epochs) for key, spec in runs.items() if book.store.ended(key) is not RunState.DONE]
    seconds = pace.total(missing)
    return "unknown: nothing has finished" if seconds is None else duration(seconds / workers)
