"""See the audit at work, on four methods, in about a minute."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import command, say, width

Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="Where runs and the report go; finished runs are used again.")
]
Folder = Annotated[Path | None, typer.Option("--data-dir", metavar="FOLDER", help="Where datasets are kept.")]
INTERRUPTED, SOME_FAILED = 130, 70  # the runs are ours, and so is their fault


@command("demo")
def demo(
    data: Annotated[str, typer.Option(metavar="NAME", help="mnist1d is built in, cifar10 is fetched.")] = "mnist1d",
    epochs: Annotated[int, typer.Option(min=1, help="60 fit into 90 seconds on two cores.")] = 60,
    seed: Annotated[int, typer.Option(min=0)] = 42,
    out: Out = Path("creditscope-demo"),
    workers: Annotated[int | None, typer.Option(min=1, help="Runs at a time; as many as cores if not given.")] = None,
    data_dir: Folder = None,
) -> int:
    """Train BP, DFA, FA and penalised DFA with their frozen twins, audit them all, and show what the audit found."""
    from creditscope.study.demonstration import demonstration, demonstration_page
    from creditscope.study.store import RunState, Store

    runs, store = demonstration(data, epochs, seed), Store(out)
    from creditscope.datasets import datasets

    datasets[data](data_dir)  # fetched once, before several processes want it
    say(f"{data}, residual MLP, {epochs} epochs, seed {seed}: four methods and their twins with frozen blocks.")
    from creditscope.study.display.board import board
    from creditscope.study.driver import StudyOptions, run_study
    from creditscope.study.engines.job import Job
    from creditscope.study.engines.local import LocalEngine

    pattern = Job("", next(iter(runs.values())), data_folder=data_dir, credit_of_controls=False)
    try:
        with LocalEngine(workers) as engine, board() as shown:
            summary = run_study(runs, store, engine, shown, StudyOptions(pattern, retry=True))
    except KeyboardInterrupt:
        done = sum(store.ended(key) is RunState.DONE for key in runs)
        sys.stderr.write(f"Stopped. {done} of {len(runs)} runs are kept. To go on, run the same command again.\n")
        return INTERRUPTED
    if summary.failed:
        failure = store.failure(summary.failed[0])
        say(f"{runs[summary.failed[0]].title} failed:\n{failure.traceback if failure else ''}")
        return SOME_FAILED
    say("\n" + demonstration_page(runs, store, width()))
    dfa = next(key for key, spec in runs.items() if spec.method == "dfa" and not spec.penalty)
    say(f"\nThe whole audit of DFA: creditscope audit {out / dfa}")
    from creditscope.commands.report import study_pages
    from creditscope.study.tables import audit_table

    title = f"Demonstration: {data}, {epochs} epochs, seed {seed}"
    say(f"As pages: {study_pages(runs, store, audit_table(runs, store), title, out / 'report')}")
    return 0
