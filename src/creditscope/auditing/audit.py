"""audit(): measures a trained network on batches and returns a Report with its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.arguments import as_text, check_callable, check_flags
from creditscope.auditing.accuracies import RecordedAccuracies, arms
from creditscope.auditing.fingerprints import Fingerprints, SeenInTraining
from creditscope.auditing.frozen_controls import FrozenControls
from creditscope.auditing.input_checks import (
    checked_batches,
    checked_images,
    checked_limits,
)
from creditscope.auditing.judging import compared, judged_report, provenance
from creditscope.auditing.measures import bad_weights
from creditscope.auditing.traces import traces
from creditscope.batch import Batch
from creditscope.credit import CreditSource, Local
from creditscope.evidence.ledger import Ledger
from creditscope.probes.label_leak import Answers
from creditscope.probes.linear_readout import training_images
from creditscope.probes.probing import Probing
from creditscope.probes.source import CreditFunction, Redraw
from creditscope.probes.updates import GivenUpdates, UpdateFunction
from creditscope.protocols import DEFAULT, protocol_named
from creditscope.provenance import Guard
from creditscope.records.report import Report, Subject
from creditscope.stream.isolation import undisturbed
from creditscope.stream.reading import Read
from creditscope.stream.reference_model import own_credit, referenced
from creditscope.stream.trace import LossFunction, Trace, cross_entropy
from creditscope.stream.unchanged import unchanged

Accuracy = float | Sequence[float]


def audit(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    blocks: str | Sequence[str] | None = None,
    accuracy: Accuracy | None = None,
    accuracy_images: int | None = None,
    control_accuracy: Accuracy | RecordedAccuracies | None = None,
    control: nn.Module | Sequence[nn.Module] | None = None,
    seeds: Sequence[int] | None = None,
    control_seeds: Sequence[int] | None = None,
    protocol: str = DEFAULT,
    thresholds: Mapping[str, float] | None = None,
    loss_fn: LossFunction | None = None,
    read: Read = "auto",
    name: str = "",
    notes: str = "",
    check_gradient: bool = True,
    credit: CreditSource | CreditFunction | None = None,
    credit_local: Local | None = None,
    redraw: Redraw | None = None,
    updates: UpdateFunction | None = None,
    own_reference: UpdateFunction | None = None,
    predict: Answers | None = None,
    initial: nn.Module | Mapping[str, Tensor] | None = None,
    training: Iterable[Any] | None = None,
    reference: nn.Module | None = None,
    disjoint: bool = True,
    independent: bool = True,
) -> Report:
    """Audit a trained network; the model is left exactly as it was.

    Prints nothing. An audit with credit can take minutes: `creditscope.progress.listening` tells its steps.

    batches           any iterable of (inputs, labels); read once, no batch twice
    blocks            path of the block list, or module names; without it the blocks are searched
    accuracy          share of correct answers, one number or one per seed; default: measured on the batches
    accuracy_images   test images behind each accuracy that is passed; unknown: D3's interval assumes 1,000
    control_accuracy  the same for the frozen control; without it, and without `control`, D3 is not judged
    control           the frozen control itself, or one network per seed: asked the same images, compared image by image
    seeds, control_seeds  the seeds of the two sides; accuracies are paired only where both are named and the same
    protocol          "strict", or as published: "three", "four" or "april"
    thresholds        other limits by code, for example {"D1": 100}
    loss_fn           (logits, labels) -> one loss per sample, for tasks other than classification
    read              how a state with tokens is read: "auto", "first", "mean", "all" or a token index
    check_gradient    first compare the backward pass with a finite difference
    credit            checkpoint.credit(), or any function Batch -> [a_0..a_L]: Γ, ρ, nudging and D5 to D9
    credit_local      False if the function is meant to use the weights above, "forward" if it probes them by forward
                      passes (node perturbation, PEPITA); D9 is then measured but not judged
    redraw            torch.Generator -> the credit function with fresh random feedback: the null of D6
    updates           Batch -> {parameter name: what the optimiser gets}: Γ^W per tensor and block; a rule as credit
                      brings its own
    own_reference     Batch -> {parameter name: gradient of what the method itself descends}, where that is not the
                      loss: the updates are compared with it too, and no alignment to BP is claimed
    predict           Batch -> logits, for a method with its own inference phase; D8 checks it for label leaks
    initial           the network, or its state_dict(), before training; adds the drift of the weights
    training          batches of the images it was trained on: linear read-outs judge depth without retraining (D10)
    reference         a reference model, for a model whose layers define their own backward: it gives the gradient, and
                      the model's own backward pass is audited as credit if none is given; see `plain_twin`
    disjoint          False: batches that have samples in common, with each other or with `training`, are not refused
                      but counted in the report's guards
    independent       False: a model whose answer for an image depends on the other images of its batch is not refused;
                      the report's guards say how much

    >>> import creditscope, torch
    >>> from creditscope.networks.build import build
    >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    >>> inputs, labels = torch.linspace(-1, 1, 384).view(64, 6), torch.arange(64) % 3
    >>> batches = list(zip(inputs.split(32), labels.split(32)))
    >>> report = creditscope.audit(network, batches, control_accuracy=0.30)
    >>> report.findings["D1"].status.value
    'pass'
    """
    chosen, limits = protocol_named(protocol), checked_limits(thresholds)
    name, notes = as_text("name", name), as_text("notes", notes)
    check_flags(check_gradient=check_gradient, disjoint=disjoint, independent=independent)
    check_callable("loss_fn", loss_fn, "a function (logits, labels) -> one loss per sample")
    images = checked_images(accuracy_images)
    stream = referenced(model, reference, blocks, read)
    controls = FrozenControls(stream, control, initial, blocks, read)
    trained, frozen = arms(accuracy, control_accuracy, seeds, control_seeds, len(controls))
    credit, credit_local = own_credit(stream, credit, credit_local, loss_fn or cross_entropy)
    given = GivenUpdates(updates, own_reference)
    ledger, probing = Ledger(stream), Probing(stream, credit, credit_local, predict, redraw, given)
    guards: dict[str, Guard] = {}
    known = {"disjoint": disjoint, "independent": independent}
    remembered: SeenInTraining | None = None

    def beside(batch: Batch, trace: Trace) -> None:
        if remembered is not None:
            remembered.add(batch)
        controls.add(batch, trace)
        probing.add(batch, trace)

    with unchanged(stream.model), undisturbed(stream.model), controls.undisturbed(), probing.prepared():
        if training is not None:
            given_images = checked_batches(training, stream.model, Fingerprints(disjoint=disjoint))
            fitted = training_images(given_images)
            remembered = SeenInTraining(fitted, disjoint=disjoint)
            probing.fit_readouts(fitted, initial)
        for trace in traces(stream, batches, loss_fn, check_gradient, guards, beside, **known):
            ledger.add(trace)
            del trace  # free it before the next one is made
        if remembered is not None:
            guards["unseen"] = remembered.guard()
        evidence = probing.completed(ledger.evidence(), loss_fn or cross_entropy, initial)
    model = stream.subject
    if trained.values is None and probing.accuracy is not None:
        trained, images = trained.measured(probing.accuracy), probing.answered
    elif trained.values is None and ledger.accuracy is not None:
        trained, images = trained.measured(ledger.accuracy), ledger.predictions
    if controls:
        frozen = frozen.measured(*controls.accuracies())
    evidence = replace(
        controls.completed(compared(evidence, trained, frozen)),
        accuracy_images=images,
        non_finite={**(evidence.non_finite or {}), "weights": bad_weights(model)},
    )
    return judged_report(
        evidence,
        chosen,
        limits,
        _subject(model, ledger.widths, name, notes),
        provenance(evidence, _anchor(model), str(stream.rule), guards, trained, frozen),
    )


def _subject(model: nn.Module, widths: tuple[int, ...], name: str, notes: str) -> Subject:
    return Subject(
        name=name or type(model).__name__,
        notes=notes,
        model=type(model).__name__,
        depth=len(widths) - 1,
        widths=widths,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def _anchor(model: nn.Module) -> Tensor:
    """A tensor on the device and in the precision of the model."""
    return next(model.parameters(), torch.zeros(()))
