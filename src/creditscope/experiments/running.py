"""Training of all runs of an experiment: one after another, or in worker processes; finished ones are kept."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from creditscope.control import Control
from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.experiments.functions import UserFunctions
from creditscope.experiments.store import ExperimentStore, StoredRun
from creditscope.experiments.variants import as_control
from creditscope.stream.unwrap import bare


class WorkerDied(CreditscopeError):
    """A worker process ended without a result."""


@dataclass(frozen=True, slots=True)
class Task:
    """One run to train; `start` and `code` are digests of its untrained network and of the code that trains it."""

    variant: str
    seed: int
    control: Control
    blocks: tuple[str, ...]
    start: str
    code: str

    def record(self, evaluated: float = 0.0) -> StoredRun:
        """What a store keeps of it."""
        return StoredRun(
            variant=self.variant,
            seed=self.seed,
            start=self.start,
            code=self.code,
            blocks=self.blocks,
            evaluated=evaluated,
        )


@dataclass(frozen=True, slots=True)
class TrainedRun:
    """A trained network and what the user's own function says of it."""

    task: Task
    network: nn.Module
    evaluated: float


Done = Callable[[TrainedRun], None]  # called with every run as soon as it is there


def train_all(
    functions: UserFunctions,
    tasks: Sequence[Task],
    store: ExperimentStore | None,
    workers: int,
    done: Done = lambda run: None,
) -> list[TrainedRun]:
    """Train every run that the store does not hold; the order is that of the tasks."""
    if workers > 1 and len(tasks) > 1:
        with _folder(store) as shared:
            return _in_parallel(functions, tasks, shared, workers, done)
    runs = []
    with _progress(len(tasks)) as advance:
        for task in tasks:
            stored = store.finished(task.record()) if store is not None else None
            advance(f"{task.variant}, seed {task.seed}", 0)
            if store is not None and stored is not None:
                run = _loaded(functions, task, store, stored)
            else:
                run = _trained(functions, task)
                if store is not None:
                    store.save(run.network, task.record(run.evaluated))
            done(run)
            runs.append(run)
            advance("", 1)
    return runs


def _trained(functions: UserFunctions, task: Task) -> TrainedRun:
    network = functions.trained(task.seed, task.variant, task.control, task.blocks)
    return TrainedRun(task, network, functions.evaluated(network))


def _loaded(functions: UserFunctions, task: Task, store: ExperimentStore, stored: StoredRun) -> TrainedRun:
    """A finished run: its weights in the network of its seed and variant."""
    network = as_control(bare(functions.fresh(task.seed)), task.control, task.blocks)
    return TrainedRun(task, store.load(network, task.variant, task.seed), stored.evaluated)


def _in_parallel(
    functions: UserFunctions, tasks: Sequence[Task], store: ExperimentStore, workers: int, done: Done
) -> list[TrainedRun]:
    """Workers of one thread each write runs into the store; the first error ends the experiment."""
    stored = {task: store.finished(task.record()) for task in tasks}
    missing = [task for task in tasks if stored[task] is None]
    runs = {task: _loaded(functions, task, store, run) for task, run in stored.items() if run is not None}
    for run in runs.values():
        done(run)
    pool = ProcessPoolExecutor(workers, mp_context=_context(functions), initializer=_prepare, initargs=(functions,))
    with _progress(len(tasks)) as advance, _ended(pool):
        advance(f"{workers} workers", len(runs))
        futures = {pool.submit(_work, task, store): task for task in missing}
        for future in as_completed(futures):
            task = futures[future]
            runs[task] = _loaded(functions, task, store, task.record(_result(future, task)))
            done(runs[task])
            advance("", 1)
    return [runs[task] for task in tasks]


@contextmanager
def _ended(pool: ProcessPoolExecutor) -> Iterator[None]:
    """No worker outlives the block: after an error none finishes its run, and none begins another."""
    try:
        yield
    except BaseException:
        for worker in list(pool._processes.values()):
            worker.kill()  # SIGTERM would be handled by whatever handler the worker inherited
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[float], task: Task) -> float:
    try:
        return future.result()
    except BrokenProcessPool as error:
        raise WorkerDied(
            f"A worker process ended without a result ({task.variant}, seed {task.seed}, or one beside it).\n"
            "The experiment is incomplete. Was the memory exhausted? Use fewer workers; a store keeps finished runs."
        ) from error


_kept_functions: list[UserFunctions] = []  # in a worker process: the functions that it was started with


def _prepare(functions: UserFunctions) -> None:
    """Keep the functions, which a forked process inherits without pickling, and use one thread."""
    torch.set_num_threads(1)
    _kept_functions.append(functions)


def _work(task: Task, store: ExperimentStore) -> float:
    """Train one run in a worker process; what evaluate says of it."""
    run = _trained(_kept_functions[-1], task)
    store.save(run.network, task.record(run.evaluated))
    return run.evaluated


def _context(functions: UserFunctions) -> Any:
    """How worker processes start: forked, so that any function can be used; anew where that is not possible."""
    forked = "fork" in multiprocessing.get_all_start_methods() and sys.platform != "darwin"
    if forked and not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return multiprocessing.get_context("fork")
    try:
        pickle.dumps(functions)
    except Exception as error:
        raise InvalidInput(
            f"The functions cannot be sent to worker processes: {error}\n"
            "Processes cannot be forked here, so nothing could be trained. Define make_model, train and evaluate at "
            "the top level of a module, or use workers=1."
        ) from error
    return multiprocessing.get_context("spawn")


@contextmanager
def _folder(store: ExperimentStore | None) -> Iterator[ExperimentStore]:
    """The store, or a temporary folder in which the workers leave their weights."""
    if store is not None:
        yield store
        return
    with tempfile.TemporaryDirectory(prefix="creditscope-") as folder:
        yield ExperimentStore(Path(folder))


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str, int], None]]:
    """A bar on standard error, where that is a terminal or a notebook."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    shown = console.is_terminal or console.is_jupyter
    with Progress(*columns, console=console, disable=not shown, transient=True) as bar:
        task = bar.add_task("training", total=total)

        def advance(description: str, steps: int) -> None:
            bar.update(task, description=description or None, advance=steps)

        yield advance
