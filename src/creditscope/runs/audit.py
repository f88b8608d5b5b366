"""The audit of a trained run: its whole test set, its own credit, its frozen control; saved with the run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from creditscope.auditing.accuracies import RecordedAccuracies
from creditscope.auditing.audit import audit
from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.errors import BadFile
from creditscope.records.folder import save_report
from creditscope.records.report import Report
from creditscope.records.run import RunRecord, after_divergence
from creditscope.runs.controls import find_frozen_control, matching_controls
from creditscope.runs.run import computing_with, load, load_data, make_network
from creditscope.runs.spec import RunSpec, read_spec
from creditscope.training.checkpoint import Checkpoint

BATCH_SIZE = 128
UNCHECKED = "the record holds no checksum of its weights, so only their names and shapes were compared with it"
REMARKS = ("name", "notes")  # of an audit's options those that change no number


def audit_checkpoint(
    checkpoint: Checkpoint,
    data: Dataset,
    controls: Sequence[RunRecord] = (),
    *,
    batch_size: int = BATCH_SIZE,
    **options: Any,
) -> Report:
    """Audit a trained run on its whole test set, with the credit that trained it.

    controls   records of its frozen control; if the one with the run's own seed is among them, that one alone
    options    any other argument of `audit`: protocol, thresholds, notes, ...
    """
    spec = read_spec(checkpoint.record, "the checkpoint's record")
    sound = [record for record in controls if record.diverged is None]  # a diverged control would flatter the run
    control = _recorded(matching_controls(spec, sound))
    report = audit(
        checkpoint.network.own,
        _images(checkpoint, data, batch_size),
        **{
            "name": spec.title,
            "control_accuracy": control,
            "seeds": (spec.seed,) if options.get("accuracy") is None else None,
            "credit": checkpoint.credit(),
            "loss_fn": checkpoint.network.loss_fn,
            "initial": _untrained(checkpoint, spec, data),
            "training": _training_images(checkpoint, data, batch_size),
            **options,
        },
    )
    provenance = report.provenance.model_copy(update={"seeds": (spec.seed,)})
    verdict = after_divergence(report.verdict, checkpoint.record.diverged)
    return report.model_copy(update={"provenance": provenance, "verdict": verdict})


def _recorded(controls: Sequence[RunRecord]) -> RecordedAccuracies | None:
    """The accuracies of controls with their seeds."""
    if not controls:
        return None
    seeds = tuple(read_spec(record, "A control's record").seed for record in controls)
    return RecordedAccuracies(tuple(record.accuracy for record in controls), seeds)


def _untrained(checkpoint: Checkpoint, spec: RunSpec, data: Dataset) -> nn.Module:
    """The network as the run began, rebuilt from its seed."""
    device = next(checkpoint.network.parameters()).device
    return checkpoint.rule.prepare(make_network(spec, data).to(device), checkpoint.example).own


def _images(checkpoint: Checkpoint, data: Dataset, size: int) -> Iterator[Batch]:
    """The test set, batch by batch, on the checkpoint's device."""
    device = next(checkpoint.network.parameters()).device
    return (Batch(inputs.to(device), labels.to(device)) for inputs, labels in data.test_batches(size))


def _training_images(checkpoint: Checkpoint, data: Dataset, size: int) -> Iterator[Batch]:
    """The training set as it is, not augmented, on the checkpoint's device."""
    device = next(checkpoint.network.parameters()).device
    return (Batch(inputs.to(device), labels.to(device)) for inputs, labels in data.training_batches(size))


@dataclass(frozen=True, slots=True)
class FolderAudit:
    """A run's record with its new report, and why that report was not saved in the folder (empty if it was)."""

    record: RunRecord
    report: Report
    unsaved: str = ""


def audit_folder(
    folder: Path,
    *,
    data_folder: Path | None = None,
    device: str = "cpu",
    limit: int | None = None,
    threads: int | None = None,
    trust_plugins: bool = False,
    **options: Any,
) -> FolderAudit:
    """Audit the run in a folder, with its frozen control if there is one, and save the report in the run's record.

    limit      use only the first so many test images
    threads    of PyTorch; by default as many as trained it, so that the report has the same bits everywhere
    trust_plugins  import the modules that the record names
    options    as of `audit_checkpoint`

    Only the standard audit is saved: with a limit, another protocol or any other choice that changes numbers the
    record keeps the report that it has.
    """
    checkpoint = load(folder, data_folder=data_folder, device=device, trust_plugins=trust_plugins)
    spec = read_spec(checkpoint.record, str(folder))
    data = load_data(spec, data_folder)
    if limit is not None:
        data = replace(data, test=Batch(data.test.inputs[:limit], data.test.labels[:limit]))
    given = {name: value for name, value in options.items() if value not in (None, "", [], {})}
    remarks, control = [given.get("notes", ""), "" if checkpoint.record.weights_checksum else UNCHECKED], None
    if "control_accuracy" not in given:
        control, why = find_frozen_control(folder, spec)
        remarks.append(why)
    given["notes"] = "; ".join(remark for remark in remarks if remark)
    with computing_with(threads or spec.threads):
        report = audit_checkpoint(checkpoint, data, [control] if control is not None else [], **given)
    record = checkpoint.record.model_copy(update={"report": report})
    special = _special({"limit": limit, "threads": None if threads == spec.threads else threads}, given)
    return FolderAudit(record, report, _save(folder, report, special))


def _special(chosen: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """The choices that make an audit another one than the standard audit of a run."""
    standard = {name: p.default for name, p in inspect.signature(audit).parameters.items()}
    standard["batch_size"] = BATCH_SIZE
    names = [name for name, value in given.items() if name not in REMARKS and value != standard[name]]
    return [*(name for name, value in chosen.items() if value is not None), *names]


def _save(folder: Path, report: Report, special: Sequence[str]) -> str:
    """Save the report with its run; the reason if it was not saved."""
    if special:
        return f"the standard audit has another {' and another '.join(special)}, so its numbers differ"
    try:
        save_report(folder, report)
    except BadFile as error:
        return str(error).partition("\n")[0].removesuffix(".")
    return ""
