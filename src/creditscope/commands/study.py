"""Declared studies: run and resume them, see how far they are, read what came out."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import Plugins, command, say, width
from creditscope.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from creditscope.study.declaration import Study
    from creditscope.study.driver import Summary
    from creditscope.study.engines.engine import Engine
    from creditscope.study.plan import Plan
    from creditscope.study.store import Store

INTERRUPTED, SOME_FAILED = 130, 1
WIDE = 160  # columns of a table that no terminal bounds

File = Annotated[Path, typer.Argument(metavar="FILE", help="The study, a TOML file.")]
Folder = Annotated[Path, typer.Option("--store", metavar="FOLDER", help="Where runs are kept.")]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="FOLDER",
        help="Committed records; what is there counts as done. Repeatable; `results` if that folder is here.",
        show_default=False,
    ),
]
Budget = Annotated[str | None, typer.Option(metavar="NAME", help="One of the study's budgets, for example laptop.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="KEY=VALUE", help="As in method=dfa or seed=1,2. Repeatable.", show_default=False),
]


def _store(folder: Path, results: list[Path] | None) -> Store:
    from creditscope.study.store import Store

    for layer in results or []:
        if not layer.is_dir():
            raise InvalidInput(f"--results {layer} is no folder.\nNo record could be read there. Check the path.")
    return Store(folder, results if results is not None else [Path("results")] if Path("results").is_dir() else [])


def _planned(
    file: Path, budget: str | None, plugins: list[str] | None, store: Store, wanted: list[str] | None = None
) -> tuple[Study, Plan]:
    from creditscope.study.declaration import Study
    from creditscope.study.plan import only, plan

    study = Study.read(file)
    runs = plan(study, budget, plugins or (), store.folder)
    choice: dict[str, list[str]] = {}
    for text in wanted or ():
        key, separator, values = text.partition("=")
        if not separator or not values:
            raise InvalidInput(f"--only {text} is not of the form key=value.\nWrite, for example, --only method=dfa.")
        choice.setdefault(key, []).extend(values.split(","))
    return study, only(runs, choice) if choice else runs


def _title(study: Study, budget: str | None) -> str:
    return f"{study.title or study.name}" + (f", budget {budget}" if budget else "")


@command("study run")
def run(
    file: File,
    store: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time; as many as cores if not given.")] = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster; auto finds it.")] = None,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs that one run takes on the cluster.")] = 1.0,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs that one run takes on the cluster.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 and so on.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Where datasets are kept.")] = None,
    snapshot_every: Annotated[float, typer.Option(min=0, help="Seconds between two snapshots of a run.")] = 30.0,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Do failed runs again.")] = False,
    audit_again: Annotated[bool, typer.Option("--audit-again", help="Audit finished runs again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be run.")] = False,
    plugin: Plugins = None,
) -> int:
    """Run a study, or go on with it: what is done is never done again.

    Ctrl-C stops within seconds and keeps what is done. Exit code 0 if every run is there, 1 if some failed.
    """
    from creditscope.study.store import RunState

    kept = _store(store, results)
    _, runs = _planned(file, budget, plugin, kept, only)
    if dry_run:
        todo = [key for key in runs if kept.ended(key) is not RunState.DONE]
        say("\n".join([f"{len(runs)} runs, {len(todo)} to do", *(f"  {key}  {runs[key].title}" for key in todo)]))
        return 0
    if not kept.folder.exists():
        kept.prepare()
        _planned(file, budget, plugin, kept)  # remembered for `status`, now that there is a place
    from creditscope.study.display.board import board
    from creditscope.study.driver import StudyOptions, run_study
    from creditscope.study.engines.job import Job

    pattern = Job("", next(iter(runs.values())), device=device, data_folder=data_dir, snapshot_seconds=snapshot_every)
    before = signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        with _engine(workers, ray, cpus, gpus) as engine, board() as shown:
            summary = run_study(runs, kept, engine, shown, StudyOptions(pattern, retry_failed, audit_again))
    except KeyboardInterrupt:
        done = sum(kept.ended(key) is RunState.DONE for key in runs)
        sys.stderr.write(
            f"Stopped. {done} of {len(runs)} runs are done and kept. To go on, run the same command again.\n"
        )
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, before)
    return _closing(summary, runs, f"{file} --store {store}" + (f" --budget {budget}" if budget else ""), store)


def _engine(workers: int | None, ray: str | None, cpus: float, gpus: float) -> Engine:
    if ray is None:
        from creditscope.study.engines.local import LocalEngine

        return LocalEngine(workers)
    from creditscope.study.engines.ray import RayEngine

    return RayEngine(ray, cpus=cpus, gpus=gpus, most=workers)


def _as_interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _closing(summary: Summary, runs: Plan, study: str, store: Path) -> int:
    say(f"{len(summary.done)} runs done, {len(summary.found)} were there, {len(summary.failed)} failed.")
    if not summary.failed:
        say(f"Read them: creditscope study report {study}")
        return 0
    for key in summary.failed:
        say(f"  failed  {key}  {runs[key].title}")
    say(f"Why: creditscope study show {summary.failed[0]} --store {store}. Again: add --retry-failed.")
    return SOME_FAILED


@command("study status")
def status(
    file: File,
    store: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    runs: Annotated[bool, typer.Option("--runs", help="List every run.")] = False,
    plugin: Plugins = None,
) -> int:
    """How far a study is: done, running, failed, missing, and the time left."""
    from creditscope.study.display.page import status_page
    from creditscope.study.status import study_status

    kept = _store(store, results)
    study, planned = _planned(file, budget, plugin, kept, only)
    say(status_page(_title(study, budget), planned, study_status(planned, kept), kept, each=runs))
    return 0


@command("study show")
def show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of a run, or its first digits.")],
    store: Folder = Path("runs"),
    results: Results = None,
    json: Annotated[bool, typer.Option("--json", help="The record as it is stored.")] = False,
) -> int:
    """One run: what it was, what came out, its audit; or why it failed."""
    kept = _store(store, results)
    matching = [found for found in kept.keys() if found.startswith(key)]  # noqa: SIM118  a store is no mapping
    if len(matching) != 1:
        some = f" {len(matching)} runs begin so: {', '.join(matching[:5])}." if matching else ""
        raise UnknownName(
            f"There is no run {key!r} in {store}.{some}\nGive a key of `creditscope study status --runs`."
        )
    from creditscope.study.display.page import run_page

    if json and kept.record_path(matching[0]) is not None:
        say(kept.record(matching[0]).to_json().rstrip("\n"))
    else:
        say(run_page(matching[0], kept, width()))
    return 0


@command("study export")
def export(
    file: File,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="One row per run and epoch; - prints.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the bare records, for a folder of results.")
    ] = None,
    store: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    plugin: Plugins = None,
) -> int:
    """What a study's finished runs measured, as a tidy CSV file or as bare records."""
    from creditscope.files import write_text
    from creditscope.study.export import tidy, write_records

    if csv is None and records is None:
        raise InvalidInput("Neither --csv nor --records was given.\nNothing would be written. Give one of them.")
    kept = _store(store, results)
    _, runs = _planned(file, budget, plugin, kept, only)
    if csv == "-":
        say(tidy(runs, kept).rstrip("\n"))
    elif csv is not None:
        say(f"wrote {write_text(csv, tidy(runs, kept))}")
    if records is not None:
        say(f"wrote {write_records(runs, kept, records)} records to {records}")
    return 0


@command("study clean")
def clean(
    store: Folder = Path("runs"),
    failed: Annotated[bool, typer.Option("--failed", help="Forget failures too.")] = False,
    snapshots: Annotated[bool, typer.Option("--snapshots", help="Unfinished runs start anew.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list.")] = False,
) -> int:
    """Remove what killed processes left behind; finished runs and what others work on are never touched."""
    kept = _store(store, [])
    paths = list(kept.litter(failed=failed, snapshots=snapshots))
    if not dry_run:
        kept.clean(paths)
    say("\n".join([f"{'would remove' if dry_run else 'removed'} {len(paths)}", *(f"  {path}" for path in paths)]))
    return 0


@command("study report")
def report(
    file: File,
    store: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    protocol: Annotated[str, typer.Option(help="three or four.")] = "three",
    html: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write it as pages too, one per run.")] = None,
    plugin: Plugins = None,
) -> int:
    """The audit table over seeds: a verdict for each seed, and for each method as a whole."""
    from creditscope.study.display.page import table_page
    from creditscope.study.tables import audit_table

    kept = _store(store, results)
    study, runs = _planned(file, budget, plugin, kept, only)
    rows = audit_table(runs, kept, protocol=protocol)
    say(table_page(_title(study, budget), rows, width() if sys.stdout.isatty() else WIDE))
    if html is not None:
        from creditscope.commands.report import study_pages

        say(f"wrote {study_pages(runs, kept, rows, _title(study, budget), html)}")
    return 0
