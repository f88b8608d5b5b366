"""What does the audit say about a trained run?  The whole test set, the run's own credit and its frozen twin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from creditscope.auditing.audit import audit
from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput
from creditscope.networks.staged import StagedNetwork
from creditscope.records.report import Report
from creditscope.records.run import RunRecord, after_divergence
from creditscope.runs.run import make_network, read_spec
from creditscope.runs.spec import RunSpec
from creditscope.training.checkpoint import Checkpoint


def audit_checkpoint(
    checkpoint: Checkpoint, data: Dataset, controls: Sequence[RunRecord] = (), *, batch_size: int = 128, **options: Any
) -> Report:
    """Audit a trained run on its whole test set, with the credit that trained it.

    controls   records of its frozen twin; the one with the run's own seed if it is there, else all of them
    options    whatever else `audit` takes: protocol, thresholds, notes, ...
    """
    spec = read_spec(checkpoint.record, "the checkpoint's record")
    sound = [record for record in controls if record.diverged is None]  # a diverged twin would flatter the run
    control = tuple(record.accuracy for record in frozen_twins(spec, sound)) or None
    report = audit(
        checkpoint.network,
        _images(checkpoint, data, batch_size),
        **{
            "name": spec.title,
            "control_accuracy": control,
            "credit": checkpoint.credit(),
            "initial": _untrained(checkpoint, spec, data),
            **options,
        },
    )
    provenance = report.provenance.model_copy(update={"seeds": (spec.seed,)})
    verdict = after_divergence(report.verdict, checkpoint.record.diverged)
    return report.model_copy(update={"provenance": provenance, "verdict": verdict})


def _untrained(checkpoint: Checkpoint, spec: RunSpec, data: Dataset) -> StagedNetwork:
    """The network as the run began, rebuilt from its seed."""
    device = next(checkpoint.network.parameters()).device
    return checkpoint.rule.prepare(make_network(spec, data).to(device), checkpoint.example)


def _images(checkpoint: Checkpoint, data: Dataset, size: int) -> Iterator[Batch]:
    """The test set, batch by batch, on the checkpoint's device."""
    device = next(checkpoint.network.parameters()).device
    return (Batch(inputs.to(device), labels.to(device)) for inputs, labels in data.test_batches(size))


def frozen_twins(spec: RunSpec, controls: Sequence[RunRecord]) -> tuple[RunRecord, ...]:
    """The records that are this run with frozen blocks; anything else among them is refused."""
    given = [(read_spec(record, "A control's record"), record) for record in controls]
    for twin, _ in given:
        wanted = spec.control_spec("frozen").model_copy(update={"seed": twin.seed})
        if twin.key != wanted.key:
            raise InvalidInput(
                f"{twin.title} is not the frozen twin of {spec.title}.\n"
                "The margin would measure something else than depth. "
                f"Give the run with the same settings and --control frozen: key {spec.control_spec('frozen').key}."
            )
    own = tuple(record for twin, record in given if twin.seed == spec.seed)
    return own or tuple(record for _, record in given)
