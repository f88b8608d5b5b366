"""The front door: a trained network and batches in, a Report out."""

from __future__ import annotations

import math
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from creditscope import __version__
from creditscope.adapters import Read, Stream
from creditscope.batch import Batch
from creditscope.credit_measures import credit_measures
from creditscope.diagnostics import diagnostics, examine_all
from creditscope.diagnostics.reference import reference_gain
from creditscope.errors import InvalidInput, UnknownName
from creditscope.evidence import Evidence, Ledger
from creditscope.guards import PROBE_IMAGES, check_deterministic, check_gradient, first_images, undisturbed
from creditscope.incoming import check_labels, check_texts, checked_accuracies, checked_batches
from creditscope.norms import non_finite
from creditscope.probes.label_leak import Answers
from creditscope.probes.probing import Probing
from creditscope.probes.source import CreditFunction
from creditscope.records import Provenance, Report, Subject
from creditscope.registry import unknown
from creditscope.trace import CreditSource, LossFunction, Trace, capture, cross_entropy
from creditscope.twins import own_credit, referenced
from creditscope.verdict import Finding, Measurement, Status, judge, profile

Accuracy = float | Sequence[float]


def audit(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    blocks: str | Sequence[str] | None = None,
    accuracy: Accuracy | None = None,
    control_accuracy: Accuracy | None = None,
    protocol: str = "three",
    thresholds: Mapping[str, float] | None = None,
    loss_fn: LossFunction | None = None,
    read: Read = "auto",
    name: str = "",
    notes: str = "",
    check_gradient: bool = True,
    credit: CreditSource | CreditFunction | None = None,
    credit_local: bool | None = None,
    predict: Answers | None = None,
    initial: nn.Module | Mapping[str, Tensor] | None = None,
    reference: nn.Module | None = None,
) -> Report:
    """Audit a trained network; the model comes back exactly as it was given.

    batches           any iterable of (inputs, labels), read once; disjoint
    blocks            path of the block list, or module names, for a model that does not show its stream
    accuracy          share of right answers, one number or one per seed; measured on the batches if not given
    control_accuracy  the same of the frozen-blocks control; without it depth utility stays open
    protocol          "three", "four" or "april"
    thresholds        other limits by code, for example {"D1": 100}
    loss_fn           (logits, labels) -> one loss per sample, for other tasks than classification
    read              which vector stands for a state with tokens: "auto", "first", "mean", "all" or an index
    check_gradient    compare the backward pass with a finite difference first
    credit            checkpoint.credit(), or any function Batch -> [a_0..a_L]: Γ, ρ, nudging and D5 to D9
    credit_local      False if the function is meant to carry credit through the weights above; D9 then does not judge
    predict           Batch -> logits, for a method with an inference phase: its answers must not know the labels (D8)
    initial           the network, or its state_dict(), before training: gives the drift of the weights
    reference         a plain twin, for a model whose layers define their own backward: the twin gives the gradient, and
                      what the model's own backward brings is its credit, if no other is given; see `plain_twin`
    """
    chosen, limits = profile(protocol), checked_limits(thresholds)
    check_texts(name=name, notes=notes)
    trained = checked_accuracies(accuracy, "accuracy")
    control = checked_accuracies(control_accuracy, "control_accuracy")
    stream = referenced(model, reference, blocks, read)
    credit, credit_local = own_credit(stream, credit, credit_local, loss_fn or cross_entropy)
    ledger, probing = Ledger(stream), Probing(stream, credit, credit_local, predict)
    guards: dict[str, str] = {}
    with undisturbed(stream.model), probing.prepared():
        for trace in traces(stream, batches, loss_fn, check_gradient, guards, probing.add):
            ledger.add(trace)
            del trace  # before the next one is made
        evidence = probing.completed(ledger.evidence(), loss_fn or cross_entropy, initial)
    model, images = stream.subject, None
    if trained is None and ledger.accuracy is not None:
        trained, images = (ledger.accuracy,), ledger.predictions
    evidence = replace(
        evidence,
        accuracy=trained,
        control_accuracy=control,
        accuracy_images=images,
        non_finite={**(evidence.non_finite or {}), "weights": bad_weights(model)},
    )
    evidence, findings = _examined(evidence, chosen.variants, limits)
    return Report(
        subject=_subject(model, ledger.widths, name, notes),
        protocol=protocol,
        accuracy=trained,
        control_accuracy=control,
        findings=findings,
        measures=_measures(evidence) | credit_measures(evidence),
        verdict=judge(chosen, findings),
        provenance=_provenance(model, evidence, stream, guards),
    )


def traces(
    stream: Stream,
    batches: Iterable[Any],
    loss_fn: LossFunction | None,
    gradient_check: bool,
    guards: dict[str, str],
    beside: Callable[[Batch, Trace], None] = lambda batch, trace: None,
) -> Iterator[Trace]:
    """One trace per batch; the guards look at the first images before anything is measured.

    `beside` sees every batch with its trace, and is the only one to do so: the batch is let go afterwards.
    """
    classes = index = 0
    for batch in checked_batches(batches, stream.model):  # enumerate() would hold on to the last one
        if index == 0:
            few = first_images(batch, PROBE_IMAGES)
            with explained(stream.model, batch):
                shown = stream.settle(few.inputs)
                if gradient_check:
                    check_deterministic(stream, few, shown)
            classes = shown.shape[-1]
        if loss_fn is None:
            check_labels(batch, classes, index)
        with explained(stream.model, batch):
            checked = check_gradient(stream, few, loss_fn or cross_entropy) if gradient_check and index == 0 else ""
            trace = capture(stream, batch, loss_fn or cross_entropy)
            if index == 0 and not gradient_check:
                check_deterministic(stream, few, shown, trace.logits[:PROBE_IMAGES])
        if index == 0:
            guards.update(stream.checks() | {"deterministic": "passed", "gradient": checked or "switched off"})
        beside(batch, trace)
        yield trace
        del batch, trace
        index += 1  # noqa: SIM113


def _examined(
    evidence: Evidence, variants: Mapping[str, str], limits: Mapping[str, float]
) -> tuple[Evidence, dict[str, Finding]]:
    """The findings; where the reference has collapsed, once more: that gates the cosines with it."""
    credit = evidence.credit
    if credit is not None and credit.backprop is not None and credit.backprop.precision == "single":
        variants = {**variants, "D9": "D9:single"}
    findings = examine_all(evidence, variants, limits)
    reference = findings["D2"]
    if reference.status is Status.FIRES and reference.cause == "collapsed":
        evidence = replace(evidence, collapsed=True)
        findings = examine_all(evidence, variants, limits)
    return evidence, findings


@contextmanager
def explained(model: nn.Module, batch: Batch) -> Iterator[None]:
    """A model that cannot take its inputs is the user's mistake, not a crash."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, AssertionError) as error:
        shape = tuple(batch.inputs.shape) if isinstance(batch.inputs, Tensor) else type(batch.inputs).__name__
        raise InvalidInput(
            f"{type(model).__name__} cannot take inputs of shape {shape}: {type(error).__name__}: {error}\n"
            "Nothing was measured. Check that the batches are the ones this network was trained on."
        ) from error


def checked_limits(thresholds: Mapping[str, float] | None) -> dict[str, float]:
    """The user's own limits by code, once it is certain that they are numbers for diagnostics that there are."""
    for code, at in (thresholds or {}).items():
        if code not in diagnostics or ":" in code:
            raise UnknownName(unknown("diagnostic", code, [name for name in diagnostics if ":" not in name]))
        if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
            raise InvalidInput(
                f"The threshold of {code} is {at!r}.\n"
                "Nothing lies past such a limit, or everything does: the diagnostic would not measure. Give a number."
            )
    return dict(thresholds or {})


def bad_weights(model: nn.Module) -> int:
    """Non-finite numbers in parameters and buffers; where all sums are finite, one look settles it without counting."""
    tensors = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    if not tensors:
        return 0
    anchor = tensors[0].device
    with torch.no_grad():
        sums = [tensor.sum() if tensor.device == anchor else tensor.sum().to(anchor) for tensor in tensors]
        return 0 if bool(torch.stack(sums).isfinite().all()) else sum(int(non_finite(tensor)) for tensor in tensors)


def _measures(evidence: Evidence) -> dict[str, Measurement]:
    """Numbers without a limit: the median norms per layer and the gain of the read-out."""
    hidden = evidence.hidden_medians.tolist()
    gradient = evidence.gradient_medians.tolist()
    return {
        "hidden_norm": Measurement(hidden[-1], tuple(hidden), note="median ‖h_l‖; value: the deepest"),
        "gradient_norm": Measurement(gradient[-1], tuple(gradient), note="median ‖g_l‖ of each sample's own loss"),
        "gain": Measurement(reference_gain(evidence), note="median ‖g_L‖/‖e‖"),
    }


def _subject(model: nn.Module, widths: tuple[int, ...], name: str, notes: str) -> Subject:
    return Subject(
        name=name or type(model).__name__,
        notes=notes,
        model=type(model).__name__,
        depth=len(widths) - 1,
        widths=widths,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def _provenance(model: nn.Module, evidence: Evidence, stream: Stream, guards: dict[str, str]) -> Provenance:
    anchor = next(model.parameters(), torch.zeros(()))
    return Provenance(
        creditscope=__version__,
        torch=torch.__version__,
        python=platform.python_version(),
        commit=source_commit(),
        device=str(anchor.device),
        dtype=str(anchor.dtype).removeprefix("torch."),
        images=evidence.images,
        batches=evidence.batches,
        read=str(stream.rule),
        guards=guards,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


@lru_cache(maxsize=1)
def source_commit() -> str | None:
    """The commit of the source tree that runs, None for an installed package or without git."""
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    answer = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return answer.stdout.strip() or None
