"""audit_arrays(): the audit of a network that only exists as arrays, from JAX or any other library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from creditscope.arguments import as_text
from creditscope.auditing.accuracies import arms
from creditscope.auditing.array_batches import (
    ArrayBatch,
    Arrays,
    Reduction,
    array_batch,
    checked_reduction,
    named_arrays,
)
from creditscope.auditing.array_files import opened_arrays
from creditscope.auditing.array_ledger import ArrayLedger
from creditscope.auditing.input_checks import checked_images, checked_limits
from creditscope.auditing.judging import compared, judged_report, provenance
from creditscope.errors import InvalidInput
from creditscope.progress import step
from creditscope.protocols import DEFAULT, protocol_named
from creditscope.provenance import Guard, GuardStatus
from creditscope.records.report import Report, Subject
from creditscope.stream.reading import Read

Accuracy = float | Sequence[float]
GUARD = Guard(
    GuardStatus.NOT_POSSIBLE,
    "arrays come without the network: that they are gradients of each sample's own loss is taken on trust, and "
    "weights were not seen",
)


def audit_arrays(
    batches: Iterable[Any] | None = None,
    *,
    hiddens: Sequence[Any] | None = None,
    gradients: Sequence[Any] | None = None,
    credit: Sequence[Any] | None = None,
    logits: Any = None,
    labels: Any = None,
    errors: Any = None,
    updates: Mapping[str, Any] | None = None,
    bp: Mapping[str, Any] | None = None,
    stages: Mapping[str, int] | None = None,
    exact_layers: Iterable[int] = (),
    reduction: Reduction = "sum",
    accuracy: Accuracy | None = None,
    accuracy_images: int | None = None,
    control_accuracy: Accuracy | None = None,
    seeds: Sequence[int] | None = None,
    control_seeds: Sequence[int] | None = None,
    protocol: str = DEFAULT,
    thresholds: Mapping[str, float] | None = None,
    read: Read = "auto",
    name: str = "",
    notes: str = "",
    disjoint: bool = True,
) -> Report:
    """Audit the states and gradients of a network that creditscope cannot run, such as one in JAX.

    Arrays may be anything with __array__ or DLPack: JAX, NumPy, TensorFlow, MLX, PyTorch. Diagnostics that need the
    network are skipped, with the reason.

    batches    files (npz, safetensors) or dicts of arrays, one per batch, named as in a file: h_0..h_L, g_0..g_L,
               a_0..a_L, logits, labels, e, updates/NAME, bp/NAME; read one after the other, none is kept
    hiddens, gradients   one batch in place of `batches`: h_0..h_L and ∂ℓ/∂h_l of each sample's own loss
    credit     a_0..a_L of the method: Γ and D5
    logits, labels   give accuracy and the errors ∂ℓ/∂logits of cross-entropy, which D2's cause, D11 and D12 need
    errors     ∂ℓ/∂logits, for another loss than cross-entropy
    updates, bp   what the method hands the optimiser and the backprop gradient, by parameter name: Γ^W
    stages     {name: stage} of these parameters, 0 for the embedding, 1 to L for the blocks, L + 1 for the read-out;
               default: by names such as embed/W, blocks/0/W and head/W
    exact_layers   layers whose credit is the gradient by construction
    reduction  of the loss behind `gradients`: "sum", or "mean" if they carry 1/N
    The other options are those of `audit`.

    >>> import creditscope, numpy
    >>> h = numpy.linspace(1, 2, 64).reshape(16, 4)
    >>> report = creditscope.audit_arrays(hiddens=[h, 3 * h], gradients=[h, h / 3], accuracy=0.7)
    >>> round(report.findings["D1"].value, 6)
    3.0
    """
    chosen, limits = protocol_named(protocol), checked_limits(thresholds)
    name, notes = as_text("name", name), as_text("notes", notes)
    checked_reduction(reduction)
    images = checked_images(accuracy_images)
    trained, frozen = arms(accuracy, control_accuracy, seeds, control_seeds, 0)
    given = {
        "hiddens": hiddens, "gradients": gradients, "credit": credit, "logits": logits, "labels": labels,
        "errors": errors, "updates": updates, "bp": bp,
    }  # fmt: skip
    collected = ArrayLedger(read, stages, disjoint=disjoint)
    for batch in _batches(batches, given, reduction):
        step("measuring batches", collected.ledger.batches)
        collected.add(batch)
        del batch  # free it before the next one is read
    ledger, evidence = collected.ledger, collected.evidence(exact_layers)
    if trained.values is None and ledger.accuracy is not None:
        trained, images = trained.measured(ledger.accuracy), ledger.predictions
    evidence = replace(compared(evidence, trained, frozen), accuracy_images=images)
    subject = Subject(
        name=name or "arrays", notes=notes, model="arrays", depth=len(ledger.widths) - 1, widths=ledger.widths
    )
    guards = {"gradient": GUARD, "disjoint": collected.fingerprints.guard()}
    origin = provenance(evidence, collected.anchor, str(collected.rule), guards, trained, frozen)
    return judged_report(evidence, chosen, limits, subject, origin)


def _batches(batches: Iterable[Any] | None, given: Mapping[str, Any], reduction: Reduction) -> Iterator[ArrayBatch]:
    """One checked batch after the other, from files or dicts, or the one that was passed by keywords."""
    named = named_arrays(given)
    if (batches is None) == (not named):
        raise InvalidInput(
            f"{'Neither batches nor arrays were' if batches is None else 'Both batches and arrays were'} given.\n"
            "An audit needs arrays from one place. Pass files or dicts, or hiddens= and gradients= of one batch."
        )
    if batches is None:
        yield array_batch(named, "The batch", 0, reduction)
        return
    several = [batches] if isinstance(batches, str | PathLike | Mapping) else batches
    if not isinstance(several, Iterable):
        raise InvalidInput(
            f"batches is a {type(batches).__name__}, not an iterable of files or dicts.\n"
            'There are no arrays to audit. Pass ["batch-0.npz", ...], or dicts {"h_0": ..., "g_0": ...}.'
        )
    count = 0
    for item in several:
        with _source(item, count) as (arrays, where):
            batch = array_batch(arrays, where, count, reduction)
        yield batch
        del item, arrays, batch
        count += 1
    if not count:
        raise InvalidInput("There are no batches.\nNothing can be measured. Is your iterable already exhausted?")


@contextmanager
def _source(item: Any, index: int) -> Iterator[tuple[Arrays, str]]:
    """The arrays of one batch, and what errors call them; the file is closed afterwards."""
    if isinstance(item, Mapping):
        yield item, f"Batch {index}"
    elif isinstance(item, str | PathLike):
        with opened_arrays(Path(item)) as arrays:
            yield arrays, str(item)
    else:
        raise InvalidInput(
            f"Batch {index} is a {type(item).__name__}, neither a file nor a dict of arrays.\n"
            'Its states cannot be told from its gradients. Pass a path, or {"h_0": ..., "g_0": ...}.'
        )
