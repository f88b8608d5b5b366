"""The job of a worker: train or resume one run, audit it, and return it as bytes."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from creditscope.errors import InvalidInput, NoRoom
from creditscope.machine import machine_error
from creditscope.runs.spec import RunSpec

if TYPE_CHECKING:
    from creditscope.records.run import HistoryRow
    from creditscope.training.checkpoint import Checkpoint

# The store is at fault, not the run: every other run would fail in the same way.
LOCKED = {errno.EROFS, errno.EACCES, errno.EPERM}


@dataclass(frozen=True, slots=True)
class Job:
    """One run to execute.

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


@dataclass(frozen=True, slots=True)
class RunError:
    """What went wrong in a run.

    lacking   what the machine lacked, if the run is not to blame: with "disk" every other run would fail too
    """

    message: str
    traceback: str
    stage: Literal["train", "audit"] = "train"
    lacking: Literal["", "disk", "memory"] = ""


@dataclass(frozen=True, slots=True)
class RunResult:
    """A finished run as bytes, an error, or both: a network that was trained but could not be audited."""

    weights: bytes = b""
    record: str = ""
    error: RunError | None = None


def attempt(job: Job, on_epoch: Callable[[HistoryRow], None]) -> RunResult:
    """Execute a run on as many threads as its spec says; whatever it raises is returned as an error."""
    try:
        import torch

        torch.set_num_threads(job.spec.threads)  # one unless the study says otherwise: the same bits everywhere
        checkpoint = _checkpoint(job, on_epoch)
    except Exception as error:  # noqa: BLE001  any error is recorded with the run
        return RunResult(error=_run_error(error, "train"))
    try:
        checkpoint, failure = _audited(checkpoint, job), None
    except Exception as error:  # noqa: BLE001  the trained network is kept anyway
        failure = _run_error(error, "audit")
    from safetensors.torch import save

    return RunResult(save(checkpoint.tensors()), checkpoint.record.to_json(), failure)


def _checkpoint(job: Job, on_epoch: Callable[[HistoryRow], None]) -> Checkpoint:
    from creditscope.records.folder import recover_snapshot
    from creditscope.runs.run import load, load_plugins, train

    load_plugins(job.spec)
    if job.spec.key != job.key:
        raise InvalidInput(
            f"Here the run {job.key} has the key {job.spec.key}: another version of creditscope or of a plugin.\n"
            "Its numbers would not be comparable. Install the same version on every machine."
        )
    if job.trained is not None:
        return load(job.trained, data_folder=job.data_folder, device=job.device, trust_plugins=True)
    if job.snapshot is not None:
        recover_snapshot(job.snapshot)  # the driver has told of damage on its own disk
    return train(
        job.spec,
        data_folder=job.data_folder,
        device=job.device,
        on_epoch=on_epoch,
        snapshot=job.snapshot,
        snapshot_seconds=job.snapshot_seconds,
    )


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
    disk = isinstance(machine, NoRoom) or (isinstance(origin, OSError) and origin.errno in LOCKED)
    lacking: Literal["", "disk", "memory"] = "disk" if disk else "memory" if machine is not None else ""
    message = str(machine).partition("\n")[0] if lacking == "memory" else f"{type(error).__name__}: {error}"
    return RunError(message, traceback.format_exc(), stage, lacking)
