"""`creditscope study`: run and resume declared studies, follow their progress, read their results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import Plugins, TrustPlugins, command, group, parsing, say, width
from creditscope.errors import NO_RESOURCES, InvalidInput, UnknownName
from creditscope.terminal import complain

if TYPE_CHECKING:
    from creditscope.study.declaration import Study
    from creditscope.study.engines.engine import Engine
    from creditscope.study.plan import Plan
    from creditscope.study.store import Store

group("study", "Run and resume declared studies, follow their progress, read their results.")
SOME_FAILED = 1
WIDE = 160  # columns of a table that is not written to a terminal

File = Annotated[Path, typer.Argument(metavar="FILE", help="The study, a TOML file.")]
Folder = Annotated[Path, typer.Option("--store", metavar="FOLDER", help="The folder of the runs.")]
Results = Annotated[
    list[Path] | None,
    typer.Option(
        "--results",
        metavar="FOLDER",
        help="Committed records; runs that have one are not run again. Repeatable; default: `results`, if it exists.",
        show_default=False,
    ),
]
Budget = Annotated[str | None, typer.Option(metavar="NAME", help="One of the study's budgets, for example laptop.")]
Only = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="KEY=VALUE", help="Select runs: method=dfa, or seed=1,2. Repeatable.", show_default=False
    ),
]


def planned(
    file: Path,
    budget: str | None,
    plugins: list[str] | None,
    store: Store,
    selection: list[str] | None = None,
    *,
    trust: bool = False,
    create: bool = False,
) -> tuple[Study, Plan]:
    """The study in a file and its runs, those of a selection if one is given.

    Modules that the file names are imported only if the command line names them too, or with `trust`.
    """
    from creditscope.plugins import check_vouched
    from creditscope.study.declaration import Study
    from creditscope.study.plan import plan
    from creditscope.study.selection import only, parse_selection

    study = Study.read(file)
    if not trust:
        check_vouched(study.modules, str(file))
    runs = plan(study, budget, plugins or (), store.folder, create=create)
    return study, only(runs, parse_selection(selection)) if selection else runs


def tell_damage(runs: Plan, store: Store) -> None:
    """Name on standard error the runs whose records cannot be trusted, and which are therefore left out."""
    from creditscope.study.display.status import damaged

    for notice in damaged(runs, store):
        complain(f"damaged {notice}")


def title_of(study: Study, budget: str | None) -> str:
    """The heading of a study's pages."""
    return f"{study.title or study.name}" + (f", budget {budget}" if budget else "")


@command("study run")
def run(
    file: File,
    folder: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Runs in parallel; default: one per core.", show_default=False)
    ] = None,
    ray: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Run on this Ray cluster; auto finds it.")] = None,
    cpus: Annotated[float, typer.Option(min=0, help="CPUs of one run on the cluster.")] = 1.0,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of one run on the cluster.")] = 0.0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 and so on.")] = "cpu",
    data_dir: Annotated[Path | None, typer.Option(metavar="FOLDER", help="The folder of the datasets.")] = None,
    snapshot_every: Annotated[float, typer.Option(min=0, help="Seconds between two snapshots of a run.")] = 30.0,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed runs again.")] = False,
    audit_again: Annotated[bool, typer.Option("--audit-again", help="Audit finished runs again.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the runs to run, and run nothing.")] = False,
    plugin: Plugins = None,
    trust_plugins: TrustPlugins = False,
) -> int:
    """Run or resume a study; finished runs are never run again.

    Ctrl-C stops it within seconds and keeps finished runs. Exit code 0 if every run is done, 1 if some failed, 74 on a
    full disk, 75 if a run was out of memory: with room again, the same command resumes.
    """
    from creditscope.study.store import open_store

    if device != "cpu" and ray is None:  # the check imports torch, and says nothing of the machines of a cluster
        parsing.device(device)
    store = open_store(folder, results)
    study, runs = planned(file, budget, plugin, store, only, trust=trust_plugins, create=not dry_run)
    from creditscope.study.driver import StudyOptions

    options = StudyOptions(retry_failed, audit_again, device, data_dir, snapshot_every, stack=study.stack)
    if dry_run:
        from creditscope.study.display.status import dry_run_page

        say(dry_run_page(runs, store, options))
        return 0
    from creditscope.study.execution import closing, execute

    summary = execute(runs, store, _engine(workers, ray, cpus, gpus), options)
    say(closing(summary, runs, store))
    if summary.starved:
        return NO_RESOURCES
    if summary.failed:
        return SOME_FAILED
    size = f" --budget {budget}" if budget else ""
    say(f"To read the results: creditscope study report {file} --store {folder}{size}")
    return 0


def _engine(workers: int | None, ray: str | None, cpus: float, gpus: float) -> Engine:
    if ray is None:
        from creditscope.study.engines.local import LocalEngine

        return LocalEngine(workers)
    from creditscope.study.engines.ray import RayEngine

    return RayEngine(ray, cpus=cpus, gpus=gpus, most=workers)


@command("study status")
def status(
    file: File,
    folder: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    runs: Annotated[bool, typer.Option("--runs", help="List every run.")] = False,
    plugin: Plugins = None,
    trust_plugins: TrustPlugins = False,
) -> int:
    """Show how many runs of a study are done, running, failed or missing, and the time left."""
    from creditscope.study.display.status import status_page
    from creditscope.study.status import study_status
    from creditscope.study.store import open_store

    store = open_store(folder, results)
    study, every = planned(file, budget, plugin, store, only, trust=trust_plugins)
    say(status_page(title_of(study, budget), every, study_status(every, store), store, each=runs))
    return 0


@command("study show")
def show(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key of a run, or its first digits.")],
    folder: Folder = Path("runs"),
    results: Results = None,
    json: Annotated[bool, typer.Option("--json", help="Print the stored record, or the stored failure.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Print every finding, column and number of its audit.")] = False,
) -> int:
    """Show one run: its settings, its results and its audit, or why it failed."""
    from creditscope.study.store import open_store

    store = open_store(folder, results)
    matching = [known for known in store.keys() if known.startswith(key)]  # noqa: SIM118  a store is not a mapping
    if len(matching) != 1:
        some = f" {len(matching)} keys begin with it: {', '.join(matching[:5])}." if matching else ""
        raise UnknownName(
            f"There is no run {key!r} in {folder}.{some}\nGive a key from `creditscope study status --runs`."
        )
    if json:
        failure = store.failure(matching[0]) if store.record_path(matching[0]) is None else None
        say(store.record(matching[0]).to_json().rstrip("\n") if failure is None else failure.model_dump_json(indent=1))
        return 0
    from creditscope.study.display.status import run_page

    say(run_page(matching[0], store, width(), full=full))
    return 0


@command("study export")
def export(
    file: File,
    csv: Annotated[
        str | None, typer.Option("--csv", metavar="FILE", help="Write one row per run and epoch; - prints them.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the bare records into this folder.")
    ] = None,
    folder: Folder = Path("runs"),
    results: Results = None,
    budget: Budget = None,
    only: Only = None,
    plugin: Plugins = None,
    trust_plugins: TrustPlugins = False,
) -> int:
    """Export the measurements of finished runs as a tidy CSV file or as bare records."""
    from creditscope.files import write_text
    from creditscope.records.labels import counted
    from creditscope.study.export import tidy, write_records
    from creditscope.study.store import open_store

    if csv is None and records is None:
        raise InvalidInput("Neither --csv nor --records was given.\nNothing would be written. Give one of them.")
    store = open_store(folder, results)
    _, runs = planned(file, budget, plugin, store, only, trust=trust_plugins)
    tell_damage(runs, store)
    if csv == "-":
        say(tidy(runs, store).rstrip("\n"))
    elif csv is not None:
        say(f"wrote {write_text(csv, tidy(runs, store))}")
    if records is not None:
        say(f"wrote {counted(write_records(runs, store, records), 'record')} to {records}")
    return 0


@command("study clean")
def clean(
    folder: Folder = Path("runs"),
    failed: Annotated[bool, typer.Option("--failed", help="Remove failures too.")] = False,
    snapshots: Annotated[
        bool, typer.Option("--snapshots", help="Remove the snapshots of unfinished runs too; these start again.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the files, and remove nothing.")] = False,
) -> int:
    """Remove the files that killed processes left in a store; finished and running runs are never touched."""
    from creditscope.records.labels import counted
    from creditscope.study.cleaning import clean as remove
    from creditscope.study.cleaning import litter
    from creditscope.study.store import Store

    store = Store(folder)
    paths = list(litter(store, failed=failed, snapshots=snapshots))
    if not dry_run:
        paths = remove(store, paths)
    heading = f"{'would remove' if dry_run else 'removed'} {counted(len(paths), 'file')}"
    say("\n".join([heading, *(f"  {path}" for path in paths)]))
    return 0
