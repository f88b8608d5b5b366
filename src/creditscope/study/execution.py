"""Execution of a study for a command: data first, then engine and board, and a clean stop on Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from creditscope.records.labels import counted
from creditscope.runs.spec import RunSpec
from creditscope.study.display.board import board
from creditscope.study.driver import StudyOptions, Summary, run_study
from creditscope.study.engines.engine import Engine
from creditscope.study.plan import Plan, run_labels
from creditscope.study.store import RunState, Store


def execute(runs: Plan, store: Store, engine: Engine, options: StudyOptions) -> Summary:
    """Execute the runs of a study that are not done; finished ones are kept whatever happens.

    Ctrl-C and SIGTERM raise a KeyboardInterrupt that carries the message for the user.
    """
    try:
        with _sigterm_as_interrupt(), engine:
            store.prepare()
            if engine.local:
                _load_data(runs, store, engine, options)
            with board() as display:
                return run_study(runs, store, engine, display, options)
    except KeyboardInterrupt:
        done = sum(state is RunState.DONE for state in store.ended_states(runs).values())
        message = (
            f"Stopped: {done} of {counted(len(runs), 'run')} done and kept. To resume, run the same command again."
        )
        raise KeyboardInterrupt(message) from None


def complete(runs: Plan, store: Store) -> bool:
    """Whether every run of a study is done and audited."""
    ended = store.ended_states(runs)
    return all(state is RunState.DONE and not store.unaudited(key) for key, state in ended.items())


def closing(summary: Summary, runs: Plan, store: Store) -> str:
    """How many runs were executed; for failures their labels, where to see the reason, and how to try again."""
    lines = [
        f"{counted(len(runs), 'run')}: {len(summary.done)} executed, {len(summary.reused)} done before, "
        f"{len(summary.failed)} failed{f', {len(summary.starved)} out of memory' if summary.starved else ''}."
    ]
    names = run_labels(runs) if summary.failed or summary.starved else {}
    lines += [f"  failed  {key}  {names[key]}" for key in summary.failed]
    lines += [f"  out of memory  {key}  {names[key]}" for key in summary.starved]
    if summary.failed:
        lines.append(f"To see why: creditscope study show {summary.failed[0]} --store {store.folder}")
        lines.append("To run them again, add --retry-failed.")
    if summary.starved:
        lines.append("Runs that were out of memory resume with the same command; fewer --workers leave more to each.")
    return "\n".join(lines)


def _load_data(runs: Plan, store: Store, engine: Engine, options: StudyOptions) -> None:
    """Load every new dataset once, so that it is fetched before several processes ask for it; the engine starts beside.

    A dataset with which this store has trained a run is here already, unless it was removed: the workers load it, and
    no torch is imported.
    """
    ended = store.ended_states(runs)
    needed = [runs[key] for key, state in ended.items() if options.asks_for(key, state, store)]
    if not needed:
        return
    engine.expect(len(needed))
    new = {_data(spec): spec for spec in needed}
    for key, state in ended.items():
        if state is RunState.DONE and _data(runs[key]) in new and store.trained(key) is not None:
            del new[_data(runs[key])]
    if not new:
        return
    from creditscope.datasets import datasets
    from creditscope.runs.run import load_plugins

    for spec in new.values():
        load_plugins(spec)
        datasets[spec.data](options.data_folder, **spec.data_options)


def _data(spec: RunSpec) -> tuple[str, str]:
    return spec.data, str(spec.data_options)


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
