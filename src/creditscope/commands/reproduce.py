"""Run the published experiments, or go on with them, and set our numbers beside the published ones."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import command, say, width
from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.files import check_folder

if TYPE_CHECKING:
    from creditscope.papers.book import Book
    from creditscope.study.store import Store

INTERRUPTED, INCOMPLETE = 130, 1
Name = Annotated[
    str | None, typer.Argument(metavar="[EXPERIMENT]", help="One of --list; all of them if it is not given.")
]
ListAll = Annotated[bool, typer.Option("--list", help="How far the experiments are, and the time left.")]
Budget = Annotated[str, typer.Option(metavar="NAME", help="laptop fits two cores, paper is as published.")]
Folder = Annotated[Path, typer.Option("--store", metavar="FOLDER", help="Where runs are kept.")]
Results = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Committed records; what is there counts as done. `results` if that folder is here.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the tables go, as Markdown and JSON.")]
Records = Annotated[
    Path | None,
    typer.Option(
        "--records",
        metavar="FOLDER",
        help="Where the records go that the tables link to; `records` beside --out if not given.",
        show_default=False,
    ),
]
TablesOnly = Annotated[
    bool,
    typer.Option(
        "--tables-only", help="Run nothing; tables from the records that are there. Exit code 0 with runs missing."
    ),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FOLDER", help="Its runs as pages too.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Runs at a time; as many as cores if not given.")]
DataFolder = Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets are kept.")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Do failed runs again.")]


@command("reproduce")
def reproduce(
    experiment: Name = None,
    list_all: ListAll = False,
    budget: Budget = "laptop",
    store: Folder = Path("runs"),
    results: Results = None,
    out: Out = Path("results/tables"),
    records: Records = None,
    tables_only: TablesOnly = False,
    html: Html = None,
    workers: Workers = None,
    data_dir: DataFolder = None,
    retry_failed: Retry = False,
) -> int:
    """Reproduce a published experiment: run what is not done yet, and write its table.

    Every row says whether ours agrees with the published figure, in standard errors. Ctrl-C keeps what is done, and the
    same command goes on. Exit code 0 if every run is there, 1 if some are not or a table could not be written. With
    --tables-only nothing is to be run: 0 if the tables were written, whatever runs are missing.

    Example: `creditscope reproduce fresh_feedback`
    """
    book, wanted = _book(store, results, budget), _wanted(experiment)
    if list_all:
        return _list(book, workers, wanted)
    complete, several = True, experiment is None
    kept = records or out.parent / "records"
    for folder in (out, kept):
        check_folder(folder)
    try:
        for name in wanted:
            if not tables_only:
                run = partial(_run, name, book, workers, data_dir, retry=retry_failed)
                complete &= _attempted(run, f"{name} was not run", go_on=several)
            write = partial(_written, name, book, out, kept, html)
            complete &= _attempted(write, f"The table of {name} was not written", go_on=several)
    except KeyboardInterrupt:
        sys.stderr.write("Stopped. What is done is kept. To go on, run the same command again.\n")
        return INTERRUPTED
    return 0 if complete else INCOMPLETE


def _list(book: Book, workers: int | None, wanted: list[str]) -> int:
    from creditscope.papers.progress import listing

    say(listing(book, width(), workers, wanted))
    return 0


def _attempted(step: Callable[[], bool], failed: str, *, go_on: bool) -> bool:
    """Whether a step was done; of several experiments the one that cannot be done is named, and the others go on."""
    try:
        return step()
    except CreditscopeError as error:
        if not go_on:
            raise
        sys.stderr.write(f"{failed}: {error}\n")
        return False


def _book(folder: Path, results: Path | None, budget: str) -> Book:
    from creditscope.papers.book import LAPTOP, PAPER, Book

    if budget not in (LAPTOP, PAPER):
        raise InvalidInput(
            f"There is no budget called {budget!r}.\nNothing was run. The experiments have two: {LAPTOP} and {PAPER}."
        )
    return Book(_store(folder, results), budget)


def _wanted(experiment: str | None) -> list[str]:
    """The names of the experiments to be done."""
    from creditscope.papers.experiments import experiments, in_order

    return [experiments[experiment].name] if experiment is not None else [one.name for one in in_order()]


def _store(folder: Path, results: Path | None) -> Store:
    from creditscope.study.store import Store

    if results is not None and not results.is_dir():
        raise InvalidInput(f"--results {results} is no folder.\nNo record could be read there. Check the path.")
    layer = results or Path("results")
    return Store(folder, [layer] if layer.is_dir() else [])


def _run(name: str, book: Book, workers: int | None, data_dir: Path | None, *, retry: bool) -> bool:
    """Do the runs that are missing; whether all are there afterwards."""
    from creditscope.datasets import datasets
    from creditscope.study.display.board import board
    from creditscope.study.driver import StudyOptions, run_study
    from creditscope.study.engines.job import Job
    from creditscope.study.engines.local import LocalEngine
    from creditscope.study.store import RunState

    runs, kept = book.plan(name), book.store
    if all(kept.ended(key) is RunState.DONE and not kept.unaudited(key) for key in runs):
        return True
    for data in dict.fromkeys(spec.data for spec in runs.values()):
        datasets[data](data_dir)  # fetched once, before several processes want it
    pattern = Job("", next(iter(runs.values())), data_folder=data_dir)
    with _terminated_like_ctrl_c(), LocalEngine(workers) as engine, board() as shown:
        summary = run_study(runs, kept, engine, shown, StudyOptions(pattern, retry))
    for key in summary.failed:
        say(f"  failed  {key}  {runs[key].title}: creditscope study show {key} --store {kept.folder}")
    if summary.failed:
        say("To do them again, add --retry-failed.")
    return not summary.failed


@contextmanager
def _terminated_like_ctrl_c() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does: what is done is kept."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _written(name: str, book: Book, out: Path, records: Path, html: Path | None) -> bool:
    """The table, and the pages if they are asked for, from what is in the store now."""
    read = book.again()
    _write(name, read, out, records)
    if html is not None:
        _pages(name, read, html / name)
    return True


def _write(name: str, book: Book, out: Path, records: Path) -> None:
    """Print the table and write it; numbers of earlier runs are held against the table that was there."""
    from creditscope.files import write_text
    from creditscope.papers.changes import changes, read_sheet, told
    from creditscope.papers.experiments import sheet
    from creditscope.papers.page import markdown, text
    from creditscope.study.export import write_records

    made = sheet(name, book)
    before = read_sheet(out / f"{made.stem}.json")
    say("\n" + text(made, width()))
    if before is not None and (moved := told(changes(before, made))):
        say(moved)
    kept = write_records(book.plan(name), book.store, records)
    write_text(out / f"{made.stem}.json", made.to_json())
    folder = Path(os.path.relpath(records, out)).as_posix()
    say(f"wrote {write_text(out / f'{made.stem}.md', markdown(made, folder))}, and {kept} records to {records}")
    if not kept:
        say("No run of it has a record here. The committed ones are found from the clone's folder, or by --results.")


def _pages(name: str, book: Book, folder: Path) -> None:
    """The study's runs as pages; for the decision utility with its matrix."""
    from creditscope.commands.report import study_pages
    from creditscope.papers.decisions import decisions
    from creditscope.papers.experiments import experiments

    found = decisions(book) if name == "decision_utility" else ()
    title = experiments[name].question
    written = study_pages(book.plan(name), book.store, book.table(name), title, folder, decisions=found)
    say(f"wrote {written}")
