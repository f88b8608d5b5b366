"""Reproduce the experiments of a paper: run or resume them, and compare our numbers with the published ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import command, say, width
from creditscope.errors import CreditscopeError, NoRoom, OutOfResources, UnknownName
from creditscope.files import check_folder
from creditscope.terminal import complain

if TYPE_CHECKING:
    from creditscope.papers.archive import RunArchive
    from creditscope.papers.paper import Paper

INCOMPLETE = 1
First = Annotated[
    str | None,
    typer.Argument(
        metavar="[PAPER]", help="An installed paper; optional if only one is installed.", show_default=False
    ),
]
Second = Annotated[
    str | None,
    typer.Argument(metavar="[EXPERIMENT]", help="One of --list; default: all of the paper.", show_default=False),
]
ListAll = Annotated[bool, typer.Option("--list", help="Show the state of each experiment and the time left.")]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="One of the paper's budgets, such as laptop (fits two cores) or paper (as published); default: the first.",
        show_default=False,
    ),
]
Folder = Annotated[Path, typer.Option("--store", metavar="FOLDER", help="The folder of runs.")]
Results = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Committed records, which count as done; default: `results` if that folder exists.",
        show_default=False,
    ),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where tables are written, as Markdown and JSON.")]
Records = Annotated[
    Path | None,
    typer.Option(
        "--records",
        metavar="FOLDER",
        help="Where the records behind the tables are written; default: `records` beside --out.",
        show_default=False,
    ),
]
TablesOnly = Annotated[
    bool,
    typer.Option("--tables-only", help="Run nothing; write tables from existing records, exit code 0."),
]
Html = Annotated[Path | None, typer.Option("--html", metavar="FOLDER", help="Also write pages of the runs.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Runs in parallel; default: the number of cores.")]
DataFolder = Annotated[Path | None, typer.Option(metavar="FOLDER", help="The folder of datasets.")]
Retry = Annotated[bool, typer.Option("--retry-failed", help="Repeat failed runs.")]


@command("reproduce")
def reproduce(
    paper: First = None,
    experiment: Second = None,
    list_all: ListAll = False,
    budget: Budget = None,
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
    """Reproduce a published experiment: run what is missing, and write its table.

    Every row says whether ours agrees with the published figure. A single name may be a paper or an experiment; without
    a name nothing is run, and the experiments of every paper are listed. Ctrl-C keeps finished runs, and the same
    command resumes. Exit code 0 if every run is done, 1 if some are missing or a table could not be written; with
    --tables-only 0 if the tables were written, whatever runs are missing.

    Example: `creditscope reproduce fresh_feedback`
    """
    from creditscope.papers.archive import RECORDS
    from creditscope.papers.installed import choose, installed_papers

    papers = installed_papers()
    if paper is None and papers and (list_all or not tables_only):
        for one in papers.values():
            _list(_archive(one, store, results, budget), workers, one.names)
        if not list_all:
            whole = "PAPER" if len(papers) > 1 else next(iter(papers))
            say(f"\nNothing was run. To run everything: creditscope reproduce {whole}; one experiment: add its name.")
        return 0
    chosen, names = choose(papers, paper, experiment)
    archive = _archive(chosen, store, results, budget)
    if list_all:
        return _list(archive, workers, names)
    complete, several = True, len(names) > 1
    kept = records or out.parent / RECORDS
    for folder in (out, kept):
        check_folder(folder)
    for name in names:
        if not _attempt(partial(_comparable, name, archive, out), f"{name} was skipped", go_on=several):
            complete = False
            continue
        if not tables_only:
            run = partial(_run, name, archive, workers, data_dir, retry=retry_failed)
            complete &= _attempt(run, f"{name} was not run", go_on=several)
        write = partial(_write, name, archive, out, kept, html)
        complete &= _attempt(write, f"The table of {name} was not written", go_on=several)
    return 0 if complete else INCOMPLETE


def _list(archive: RunArchive, workers: int | None, names: list[str]) -> int:
    from creditscope.papers.progress import listing

    say(listing(archive, width(), workers, names))
    return 0


def _attempt(step: Callable[[], bool], failed: str, *, go_on: bool) -> bool:
    """Whether a step succeeded; with several experiments a failing one is reported, and the others continue.

    A machine that is out of disk or memory stops them all: the others would meet the same.
    """
    try:
        return step()
    except (NoRoom, OutOfResources):
        raise
    except CreditscopeError as error:
        if not go_on:
            raise
        complain(f"{failed}: {error}")
        return False


def _archive(paper: Paper, folder: Path, results: Path | None, budget: str | None) -> RunArchive:
    from creditscope.papers.archive import RunArchive, own_records_first
    from creditscope.registry import unknown
    from creditscope.study.store import open_store

    if budget is not None and budget not in paper.budgets:
        raise UnknownName(f"{unknown('budget', budget, list(paper.budgets))}\nNothing was run.")
    store = own_records_first(open_store(folder, None if results is None else [results]))
    return RunArchive(paper, store, budget or paper.budgets[0])


def _comparable(name: str, archive: RunArchive, out: Path) -> bool:
    """Refuse, before anything is run, a table file that the new table could not be compared with."""
    from creditscope.papers.changes import read_table

    read_table(out / f"{archive.stem(name)}.json", archive.paper.name)
    return True


def _run(name: str, archive: RunArchive, workers: int | None, data_dir: Path | None, *, retry: bool) -> bool:
    """Execute the missing runs; whether all are done afterwards."""
    from creditscope.study.driver import StudyOptions
    from creditscope.study.engines.local import LocalEngine
    from creditscope.study.execution import closing, complete, execute

    runs, store = archive.plan(name), archive.store
    if complete(runs, store):
        return True
    summary = execute(runs, store, LocalEngine(workers), StudyOptions(retry, data_folder=data_dir))
    if summary.failed or summary.starved:
        say(closing(summary, runs, store))
    return not summary.failed and not summary.starved


def _write(name: str, archive: RunArchive, out: Path, records: Path, html: Path | None) -> bool:
    """Print and write the table from the records in the store now; compare it with the table written before."""
    from creditscope.files import write_text
    from creditscope.papers.changes import changes, changes_text, read_table
    from creditscope.papers.rendering import table_files, table_text
    from creditscope.papers.tables import comparison_table
    from creditscope.records.labels import counted
    from creditscope.study.export import write_records

    current = archive.refreshed()
    table = comparison_table(current, name)
    before = read_table(out / f"{table.stem}.json", table.paper)
    say("\n" + table_text(table, width()))
    if before is not None and (moved := changes_text(changes(before, table))):
        say(moved)
    count = write_records(current.plan(name), current.store, records)
    for file, text in table_files(table, Path(os.path.relpath(records, out)).as_posix()).items():
        write_text(out / file, text)
    say(f"wrote {out / table.stem}.md, and {counted(count, 'record')} to {records}")
    if not count:
        say("No run of it has a record here. Committed records are found in the clone's folder, or by --results.")
    if html is not None:
        _pages(name, current, html / name)
    return True


def _pages(name: str, archive: RunArchive, folder: Path) -> None:
    """The study's runs as pages, with the experiment's matrix of decisions if it has one."""
    from creditscope.study.display.pages import study_pages

    experiment = archive.paper.experiment(name)
    decisions = experiment.decisions(archive) if experiment.decisions is not None else ()
    rows = archive.audit_rows(name)
    written = study_pages(archive.plan(name), archive.store, rows, experiment.question, folder, decisions=decisions)
    say(f"wrote {written}")
