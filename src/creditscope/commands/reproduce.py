"""Run the published experiments, or go on with them, and set our numbers beside the published ones."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import command, say, width
from creditscope.errors import CreditscopeError, InvalidInput

if TYPE_CHECKING:
    from creditscope.reproduction.book import Book

INTERRUPTED, INCOMPLETE = 130, 1
Name = Annotated[
    str | None, typer.Argument(metavar="[EXPERIMENT]", help="One of --list; all of them if it is not given.")
]
Budget = Annotated[str, typer.Option(metavar="NAME", help="laptop fits two cores, paper is as published.")]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the tables go, as Markdown and JSON.")]
Records = Annotated[
    Path | None, typer.Option("--records", metavar="FOLDER", help="Write the bare records of finished runs too.")
]
TablesOnly = Annotated[bool, typer.Option("--tables-only", help="Run nothing; tables from the records that are there.")]
Html = Annotated[Path | None, typer.Option("--html", metavar="FOLDER", help="Its runs as pages too.")]


@command("reproduce")
def reproduce(
    experiment: Name = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="Every experiment, how far it is, and the time left.")
    ] = False,
    budget: Budget = "laptop",
    store: Annotated[Path, typer.Option(metavar="FOLDER", help="Where runs are kept.")] = Path("runs"),
    results: Annotated[Path, typer.Option(metavar="FOLDER", help="Committed records count as done.")] = Path("results"),
    out: Out = Path("results/tables"),
    records: Records = None,
    tables_only: TablesOnly = False,
    html: Html = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time; as many as cores if not given.")] = None,
    data_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets are kept.")] = None,
) -> int:
    """Reproduce a published experiment: run what is not done yet, and write its table.

    Every row says whether ours agrees with the published figure, in standard errors. Ctrl-C keeps what is done, and the
    same command goes on. Exit code 0 if every run is there, 1 if some are not.

    Example: `creditscope reproduce fresh_feedback`
    """
    from creditscope.reproduction.book import Book
    from creditscope.reproduction.experiments import experiments, in_order
    from creditscope.study.store import Store

    if budget not in ("laptop", "paper"):
        raise InvalidInput(f"There is no budget called {budget!r}.\nThe experiments have two: laptop and paper.")
    book = Book(Store(store, [results] if results.is_dir() else []), budget)
    if list_all:
        from creditscope.reproduction.progress import listing

        say(listing(book, width(), workers))
        return 0
    wanted = [experiments[experiment].name] if experiment is not None else [one.name for one in in_order()]
    complete = True
    for name in wanted:
        if not tables_only:
            try:
                complete &= _run(name, book, workers, data_dir)
            except KeyboardInterrupt:
                sys.stderr.write("Stopped. What is done is kept. To go on, run the same command again.\n")
                return INTERRUPTED
            except CreditscopeError as error:
                if experiment is not None:
                    raise
                complete = False
                sys.stderr.write(f"{name} was not run: {error}\n")
        _write(name, Book(book.store, budget), out, records)
        if html is not None:
            _pages(name, book, html / name)
    return 0 if complete or tables_only else INCOMPLETE


def _run(name: str, book: Book, workers: int | None, data_dir: Path | None) -> bool:
    """Do the runs that are missing; whether all are there afterwards."""
    from creditscope.datasets import datasets
    from creditscope.study.board import board
    from creditscope.study.driver import Wishes, run_study
    from creditscope.study.engine import LocalEngine
    from creditscope.study.job import Job
    from creditscope.study.store import State

    runs, kept = book.plan(name), book.store
    if all(kept.ended(key) is State.DONE for key in runs):
        return True
    for data in dict.fromkeys(spec.data for spec in runs.values()):
        datasets[data](data_dir)  # fetched once, before several processes want it
    pattern = Job("", next(iter(runs.values())), data_folder=data_dir)
    with LocalEngine(workers) as engine, board() as shown:
        summary = run_study(runs, kept, engine, shown, Wishes(pattern))
    for key in summary.failed:
        say(f"  failed  {key}  {runs[key].title}: creditscope study show {key} --store {kept.folder}")
    return not summary.failed


def _write(name: str, book: Book, out: Path, records: Path | None) -> None:
    """Print the table and write it; numbers of earlier runs are held against the table that was there."""
    from creditscope.files import write_text
    from creditscope.reproduction.changes import changes, read_sheet, told
    from creditscope.reproduction.experiments import sheet
    from creditscope.reproduction.page import markdown, text
    from creditscope.study.export import write_records

    made = sheet(name, book)
    before = read_sheet(out / f"{name}.json")
    say("\n" + text(made, width()))
    if before is not None and before.budget == made.budget:
        moved = told(*changes(before, made))
        say(moved) if moved else None
    write_text(out / f"{name}.json", made.model_dump_json(indent=1) + "\n")
    say(f"wrote {write_text(out / f'{name}.md', markdown(made))}")
    if records is not None:
        say(f"wrote {write_records(book.plan(name), book.store, records)} records to {records}")


def _pages(name: str, book: Book, folder: Path) -> None:
    """The study's runs as pages; for the decision utility with its matrix."""
    from creditscope.commands.report import study_pages
    from creditscope.reproduction.decisions import decisions

    found = decisions(book) if name == "decision_utility" else ()
    say(f"wrote {study_pages(book.plan(name), book.store, book.table(name), name, folder, decisions=found)}")
