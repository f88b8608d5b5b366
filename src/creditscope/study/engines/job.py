"""The job of a worker: train or resume one run, audit it, and return it as bytes."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from creditscope.errors import DataUnavailable, InvalidInput, NoRoom
from creditscope.machine import machine_error
from creditscope.runs.spec import RunSpec

if TYPE_CHECKING:
    from creditscope.records.run import HistoryRow
    from creditscope.training.checkpoint import Checkpoint

# The store is at fault, not the run: every other run would fail in the same way.
LOCKED = {errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True, slots=True)
class Job:
    """One run to execute, and others to train with it as one stack.

    snapshot  a file for the state of an unfinished run, from which it resumes if the file exists
    trained   the folder of its checkpoint, if only the audit is to be done
    credit_of_controls  whether the credit of controls is probed too; ρ costs more than a short run
    """

    key: str
    spec: RunSpec
    snapshot: Path | None = None
    trained: Path | None = None
    snapshot_seconds: float = 30.0
    data_folder: Path | None = None
    device: str = "cpu"
    credit_of_controls: bool = True
    beside: tuple[Job, ...] = ()


Lacking = Literal["", "disk", "permission", "memory", "data"]


@dataclass(frozen=True, slots=True)
class RunError:
    """What went wrong in a run.

    lacking   what the machine lacked, if the run is not to blame: without disk, permission or data every other run
              would fail too
    """

    message: str
    traceback: str
    stage: Literal["train", "audit"] = "train"
    lacking: Lacking = ""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run as bytes, an error, or both: a network that was trained but could not be audited."""

    weights: bytes = b""
    record: str = ""
    error: RunError | None = None


def attempt_all(job: Job, on_epoch: Callable[[str, HistoryRow], None]) -> Iterator[tuple[str, RunResult]]:
    """Execute a job and those beside it: the result of every run by its key.

    If the stack fails, for example for want of memory, its runs are executed one after another.
    """
    jobs = (replace(job, beside=()), *job.beside)
    checkpoints: Sequence[Checkpoint | None] = [None] * len(jobs)
    if job.beside:
        with suppress(Exception):  # whatever is wrong with a run is recorded when it is executed alone
            checkpoints = _checkpoints(jobs, on_epoch)
    for one, checkpoint in zip(jobs, checkpoints, strict=True):
        if checkpoint is None:
            yield one.key, attempt(one, partial(on_epoch, one.key))
        else:
            yield one.key, _finished(checkpoint, one)


def attempt(job: Job, on_epoch: Callable[[HistoryRow], None]) -> RunResult:
    """Execute a run on as many threads as its spec says; whatever it raises is returned as an error."""
    try:
        import torch

        torch.set_num_threads(job.spec.threads)  # one unless the study says otherwise: the same bits everywhere
        checkpoint = _checkpoint(job, on_epoch)
    except Exception as error:  # noqa: BLE001  any error is recorded with the run
        return RunResult(error=_run_error(error, "train"))
    return _finished(checkpoint, job)


def _finished(checkpoint: Checkpoint, job: Job) -> RunResult:
    """The checkpoint with its audit, as bytes."""
    try:
        checkpoint, failure = _audited(checkpoint, job), None
    except Exception as error:  # noqa: BLE001  the trained network is kept anyway
        failure = _run_error(error, "audit")
    from safetensors.torch import save

    return RunResult(save(checkpoint.tensors()), checkpoint.record.to_json(), failure)


def _checkpoint(job: Job, on_epoch: Callable[[HistoryRow], None]) -> Checkpoint:
    from creditscope.runs.run import load, train

    _check_key(job)
    if job.trained is not None:
        return load(job.trained, data_folder=job.data_folder, device=job.device, trust_plugins=True)
    _recover(job)
    return train(
        job.spec,
        data_folder=job.data_folder,
        device=job.device,
        on_epoch=on_epoch,
        snapshot=job.snapshot,
        snapshot_seconds=job.snapshot_seconds,
    )


def _checkpoints(jobs: Sequence[Job], on_epoch: Callable[[str, HistoryRow], None]) -> list[Checkpoint]:
    """The runs of a stack, trained together."""
    import torch

    from creditscope.runs.stack import train_many

    for job in jobs:
        _check_key(job)
        _recover(job)
    first = jobs[0]
    torch.set_num_threads(first.spec.threads)
    return train_many(
        [job.spec for job in jobs],
        data_folder=first.data_folder,
        device=first.device,
        on_epoch=lambda index, row: on_epoch(jobs[index].key, row),
        snapshots=[job.snapshot for job in jobs],
        snapshot_seconds=first.snapshot_seconds,
    )


def _check_key(job: Job) -> None:
    """Refuse a run whose key comes out differently here."""
    from creditscope.runs.run import load_plugins

    load_plugins(job.spec)
    if job.spec.key != job.key:
        raise InvalidInput(
            f"Here the run {job.key} has the key {job.spec.key}: another version of creditscope or of a plugin.\n"
            "Its numbers would not be comparable. Install the same version on every machine."
        )


def _recover(job: Job) -> None:
    """Put a damaged snapshot aside; the driver has told of damage on its own disk."""
    from creditscope.records.folder import recover_snapshot

    if job.snapshot is not None:
        recover_snapshot(job.snapshot)


def _audited(checkpoint: Checkpoint, job: Job) -> Checkpoint:
    """The same checkpoint with its report in the record."""
    from creditscope.runs.audit import audit_checkpoint
    from creditscope.runs.run import load_data

    probed = job.credit_of_controls or job.spec.control == "none"
    options: dict[str, Any] = {} if probed else {"credit": None}
    report = audit_checkpoint(checkpoint, load_data(job.spec, job.data_folder), **options)
    return replace(checkpoint, record=checkpoint.record.model_copy(update={"report": report}))


def _run_error(error: Exception, stage: Literal["train", "audit"]) -> RunError:
    origin = error.__cause__ if isinstance(error.__cause__, OSError) else error
    machine = machine_error(error)
    lacking: Lacking = ""
    if machine is not None:
        lacking = "disk" if isinstance(machine, NoRoom) else "memory"
    elif isinstance(origin, OSError) and origin.errno in LOCKED:
        lacking = "permission"
    if not lacking and isinstance(error, DataUnavailable):
        return RunError(str(error), traceback.format_exc(), stage, "data")
    message = str(machine).partition("\n")[0] if lacking == "memory" else f"{type(error).__name__}: {error}"
    return RunError(message, traceback.format_exc(), stage, lacking)
