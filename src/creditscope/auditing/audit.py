"""audit(): measures a trained network on batches and returns a Report with its verdict."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import torch
from torch import Tensor, nn

from creditscope import __version__
from creditscope.auditing.accuracies import Arm, RecordedAccuracies, arms, paired
from creditscope.auditing.fingerprints import Fingerprints
from creditscope.auditing.frozen_controls import FrozenControls
from creditscope.auditing.input_checks import (
    check_texts,
    checked_batches,
    checked_images,
    checked_limits,
)
from creditscope.auditing.measures import bad_weights, credit_measures, norm_measures
from creditscope.auditing.traces import traces
from creditscope.auditing.updates import update_measures, update_table
from creditscope.batch import Batch
from creditscope.credit import CreditSource, Local
from creditscope.diagnostics import examine_all
from creditscope.evidence.credit import CreditEvidence, HiddenBackprop
from creditscope.evidence.ledger import Ledger
from creditscope.evidence.records import Evidence
from creditscope.probes.label_leak import Answers
from creditscope.probes.linear_readout import training_images
from creditscope.probes.probing import Probing
from creditscope.probes.source import CreditFunction, Redraw
from creditscope.probes.updates import GivenUpdates, UpdateFunction
from creditscope.protocols import DEFAULT, AuditProtocol, judge, protocol_named
from creditscope.provenance import Guard, source_commit
from creditscope.records.report import Provenance, Report, Subject
from creditscope.stream.isolation import undisturbed
from creditscope.stream.reading import Read
from creditscope.stream.reference_model import own_credit, referenced
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace, cross_entropy
from creditscope.verdict import Finding, reference_collapsed, untrusted_states

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
    disjoint          False: batches that have samples in common are not refused but counted in the report's guards
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
    check_texts(name=name, notes=notes)
    images = checked_images(accuracy_images)
    stream = referenced(model, reference, blocks, read)
    controls = FrozenControls(stream, control, initial, blocks, read)
    trained, frozen = arms(accuracy, control_accuracy, seeds, control_seeds, len(controls))
    credit, credit_local = own_credit(stream, credit, credit_local, loss_fn or cross_entropy)
    given = GivenUpdates(updates, own_reference)
    ledger, probing = Ledger(stream), Probing(stream, credit, credit_local, predict, redraw, given)
    guards: dict[str, Guard] = {}
    known = {"disjoint": disjoint, "independent": independent}

    def beside(batch: Batch, trace: Trace) -> None:
        controls.add(batch, trace)
        probing.add(batch, trace)

    with undisturbed(stream.model), controls.undisturbed(), probing.prepared():
        if training is not None:
            probing.fit_readouts(
                training_images(checked_batches(training, stream.model, Fingerprints(disjoint=disjoint))), initial
            )
        for trace in traces(stream, batches, loss_fn, check_gradient, guards, beside, **known):
            ledger.add(trace)
            del trace  # free it before the next one is made
        evidence = probing.completed(ledger.evidence(), loss_fn or cross_entropy, initial)
    model = stream.subject
    if trained.values is None and probing.accuracy is not None:
        trained, images = trained.measured(probing.accuracy), probing.answered
    elif trained.values is None and ledger.accuracy is not None:
        trained, images = trained.measured(ledger.accuracy), ledger.predictions
    if controls:
        frozen = frozen.measured(*controls.accuracies())
    evidence = replace(
        controls.completed(_compared(evidence, trained, frozen)),
        accuracy_images=images,
        non_finite={**(evidence.non_finite or {}), "weights": bad_weights(model)},
    )
    evidence, findings = _examined(evidence, chosen, limits)
    provenance = _provenance(model, evidence, stream, guards)
    return Report(
        subject=_subject(model, ledger.widths, name, notes),
        protocol=protocol,
        accuracy=evidence.accuracy,
        control_accuracy=evidence.control_accuracy,
        accuracy_source=evidence.accuracy_source,
        control_source=evidence.control_source,
        findings=findings,
        measures=norm_measures(evidence)
        | credit_measures(evidence, collapsed=reference_collapsed(findings))
        | update_measures(evidence.updates),
        updates=update_table(evidence.updates),
        exact_layers=_exact_layers(evidence),
        verdict=judge(chosen, findings),
        provenance=provenance.model_copy(update={"seeds": trained.seeds, "control_seeds": frozen.seeds}),
    )


def _compared(evidence: Evidence, trained: Arm, frozen: Arm) -> Evidence:
    """The evidence with both sides of D3; seeds count as paired where both sides name the same ones."""
    control, same = paired(trained, frozen)
    return replace(
        evidence,
        accuracy=trained.values,
        control_accuracy=control.values,
        accuracy_source=trained.source,
        control_source=control.source,
        matched_seeds=same is not False,
        named_seeds=same is True,
    )


def _examined(
    evidence: Evidence, protocol: AuditProtocol, limits: Mapping[str, float]
) -> tuple[Evidence, dict[str, Finding]]:
    """The findings; states at which no cosine can be interpreted are noted and left out of D5 and D6."""
    credit = evidence.credit
    probe = credit.backprop if isinstance(credit, CreditEvidence) else credit
    if isinstance(probe, HiddenBackprop) and probe.precision == "single":
        protocol = replace(protocol, variants={**protocol.variants, "D9": "single"})
    findings = examine_all(evidence, protocol, limits)
    untrusted = untrusted_states(findings)
    if untrusted and isinstance(credit, CreditEvidence):
        evidence = replace(evidence, untrusted=untrusted)
        findings = examine_all(evidence, protocol, limits)
    return evidence, findings


def _exact_layers(evidence: Evidence) -> tuple[int, ...]:
    credit = evidence.credit
    return tuple(sorted(credit.exact_layers)) if isinstance(credit, CreditEvidence) else ()


def _subject(model: nn.Module, widths: tuple[int, ...], name: str, notes: str) -> Subject:
    return Subject(
        name=name or type(model).__name__,
        notes=notes,
        model=type(model).__name__,
        depth=len(widths) - 1,
        widths=widths,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )


def _provenance(model: nn.Module, evidence: Evidence, stream: Stream, guards: dict[str, Guard]) -> Provenance:
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
