"""Runs of a study as text: the runs to run, the status of a study, and one run in full."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from creditscope.errors import BadFile
from creditscope.records.labels import counted
from creditscope.records.run import RunRecord
from creditscope.records.summary import Judgeable
from creditscope.report.text import page
from creditscope.report.views import from_runs
from creditscope.runs.spec import RunSpec
from creditscope.study.display.board import tally
from creditscope.study.failure import Failure
from creditscope.study.lock import RunProgress
from creditscope.study.plan import Plan, run_labels
from creditscope.study.saved_runs import beside_controls
from creditscope.study.status import StudyStatus, duration, since
from creditscope.study.store import RunState, Store

if TYPE_CHECKING:
    from creditscope.study.driver import StudyOptions


def dry_run_page(runs: Plan, store: Store, options: StudyOptions) -> str:
    """The runs that a study would execute with these options; those that are trained are only audited."""
    ended = store.ended_states(runs)
    wanted = [key for key, state in ended.items() if options.asks_for(key, state, store)]
    left = Counter(ended[key] for key in ended.keys() - set(wanted))
    names = run_labels(runs) if wanted else {}
    lines = [f"  {key}  {names[key]}{'' if store.trained(key) is None else ': audit only'}" for key in wanted]
    return "\n".join([tally(len(runs), left[RunState.DONE], left[RunState.FAILED]), *lines])


def status_page(title: str, runs: Plan, status: StudyStatus, store: Store, *, each: bool) -> str:
    """Counts by state and the time left; running and failed runs by label, with `each` every run."""
    counts = ", ".join(f"{number} {state}" for state, number in status.counts.items())
    lines = [title, f"{counted(len(runs), 'run')}: {counts}"]
    if status.seconds_left:
        lines.append(f"about {duration(status.seconds_left)} left with one worker, judging by the finished runs")
    listed = {RunState.RUNNING, RunState.FAILED, *(RunState if each else ())}
    shown = {key: state for key, state in status.states.items() if state in listed}
    names = run_labels(runs) if shown else {}
    for key, state in shown.items():
        progress = store.progress(key) if state is RunState.RUNNING else None
        lines.append(f"  {state:<8}{key}  {names[key]}{_detail(progress, store.failure(key))}")
    unfinished = [key for key, state in status.states.items() if state is not RunState.DONE]
    lines += [f"  damaged {notice}" for notice in damaged(unfinished, store)]
    return "\n".join(lines)


def damaged(keys: Iterable[str], store: Store) -> list[str]:
    """Those of these runs whose record cannot be trusted, each with the reason; they do not count as done."""
    reasons = {key: store.damage(key) for key, state in store.ended_states(keys).items() if state is not RunState.DONE}
    return [f"{key}  {reason}; `study run` runs it again" for key, reason in reasons.items() if reason]


def _detail(progress: RunProgress | None, failure: Failure | None) -> str:
    if progress is not None:
        return f": {_progress(progress)}"
    return "" if failure is None else f": {failure.error.partition(chr(10))[0]}"


def _progress(progress: RunProgress) -> str:
    epochs = f"epoch {progress.epoch} of {progress.epochs}"
    return f"{epochs}, running for {since(progress.started)} in process {progress.process}"


def run_page(key: str, store: Store, width: int, *, full: bool = False) -> str:
    """One run: its settings and state, then the error that it failed with, or its results and audit."""
    lines, failure = [f"{key}: {store.state(key)}"], store.failure(key)
    if failure is not None:
        lines += _failure(failure)
    path = store.record_path(key)
    if path is None:
        lines += [f"its record cannot be trusted: {reason}"] if (reason := store.damage(key)) else []
        progress = store.progress(key)
        return "\n".join(lines if progress is None else [*lines, _progress(progress)])
    record = store.record(key)
    took = record.timings.get("seconds")
    lines += [
        RunSpec.model_validate(record.spec).title,
        f"record {path}, {_bound(record, kept=store.trained(key) is not None)}",
        f"accuracy {record.accuracy:.4f} on {counted(record.test_images, 'test image')}, "
        f"{counted(len(record.history), 'epoch')}" + ("" if took is None else f", {duration(took)}"),
        f"{', '.join(f'{name} {version}' for name, version in record.versions.items())}, commit {record.commit}",
    ]
    if record.diverged is not None:
        lines.append(f"diverged in epoch {record.diverged.epoch + 1}: {record.diverged.why}")
    report = beside_controls(from_runs([record]), _others(key, store))[0].report
    lines.append("" if report is not None else "not audited: creditscope study run audits it")
    return "\n".join(lines if report is None else [*lines, page(report, width, full=full)])


def _others(key: str, store: Store) -> Iterator[Judgeable]:
    """The other runs of a store without their reports, one after another; one that cannot be read is skipped."""
    for other in store.keys():  # noqa: SIM118  a store is not a mapping
        with suppress(BadFile):
            summary = store.summary(other, control=True) if other != key else None
            if summary is not None:
                yield summary


def _bound(record: RunRecord, *, kept: bool) -> str:
    """Whether the weights are kept, and whether the record says which they are."""
    if not kept:
        return "weights not kept"
    return "weights beside it" if record.weights_checksum else "weights beside it, of which it holds no checksum"


def _failure(failure: Failure) -> list[str]:
    attempts = f"failed {counted(failure.attempts, 'time')}, last {failure.when}"
    during = f"during {'training' if failure.stage == 'train' else 'the audit'}:"
    title = [RunSpec.model_validate(failure.spec).title] if failure.spec else []
    return [*title, attempts, during, failure.traceback.rstrip()]
