"""Show the audit at work on four methods, in a few minutes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from creditscope.commands import command, say, width

Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder for runs and report; finished runs are not run again.")
]
Folder = Annotated[Path | None, typer.Option("--data-dir", metavar="FOLDER", help="The folder of the datasets.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Runs in parallel; default: one per core.", show_default=False)
]
SOME_FAILED = 70  # the runs are the demo's own, so a failure is a fault of creditscope


@command("demo")
def demo(
    data: Annotated[str, typer.Option(metavar="NAME", help="mnist1d is built in, cifar10 is fetched.")] = "mnist1d",
    epochs: Annotated[int, typer.Option(min=1, max=1_000_000, help="100 take about three minutes on two cores.")] = 100,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1)] = 42,
    out: Out = Path("creditscope-demo"),
    workers: Workers = None,
    data_dir: Folder = None,
) -> int:
    """Train BP, DFA, FA and penalised DFA with their frozen controls, audit them, and show what the audit finds."""
    from creditscope.machine import out_of_memory
    from creditscope.records.labels import counted
    from creditscope.study.display.demonstration import demonstration, demonstration_page
    from creditscope.study.driver import StudyOptions
    from creditscope.study.engines.local import LocalEngine
    from creditscope.study.execution import execute
    from creditscope.study.store import Store

    runs, store = demonstration(data, epochs, seed), Store(out)
    size = counted(epochs, "epoch")
    say(f"{data}, residual MLP, {size}, seed {seed}: four methods with frozen controls.")
    options = StudyOptions(retry=True, data_folder=data_dir, credit_of_controls=False)
    summary = execute(runs, store, LocalEngine(workers), options)
    if summary.failed:
        failure = store.failure(summary.failed[0])
        say(f"{runs[summary.failed[0]].title} failed:\n{failure.traceback if failure else ''}")
        return SOME_FAILED
    if summary.starved:
        raise out_of_memory(f"{runs[summary.starved[0]].title} did not end")
    say("\n" + demonstration_page(runs, store, width()))
    dfa = next(key for key, spec in runs.items() if spec.method == "dfa" and not spec.penalty)
    say(f"\nThe whole audit of DFA: creditscope audit {out / dfa}")
    from creditscope.study.display.pages import study_pages
    from creditscope.study.tables import audit_table

    title = f"Demonstration: {data}, {size}, seed {seed}"
    say(f"As pages: {study_pages(runs, store, audit_table(runs, store), title, out / 'report')}")
    return 0
