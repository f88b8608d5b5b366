"""The measures of a report: numbers without a limit about norms, credit and weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import nn

from creditscope.diagnostics.reference import reference_gain
from creditscope.evidence.credit import CreditEvidence, Interventions, LabelDependence, Layers, Null
from creditscope.evidence.norms import non_finite
from creditscope.evidence.records import Evidence
from creditscope.statistics.layers import deep_mean, mean, spread
from creditscope.verdict import CLAMPED, Measurement, Missing, Reason

INVALID = "invalid: the reference gradient lies below the clamp, or the step is absolute (D2)"


def credit_measures(evidence: Evidence, *, collapsed: bool) -> dict[str, Measurement]:
    """Γ, ρ, nudging and drift; notes say which numbers a collapsed reference makes invalid."""
    measures = {}
    if evidence.weight_drift is not None:
        measures["weight_drift"] = _drift(evidence.weight_drift)
    credit = evidence.credit
    if isinstance(credit, Missing):
        if credit.reason is Reason.NOT_AVAILABLE:
            measures["gamma"] = Measurement(math.nan, cause=credit.reason.value, note=credit.text)
        return measures
    measures |= _alignment(credit) | _chance(credit)
    if credit.interventions is not None:
        measures |= _interventions(credit.interventions, credit)
    measures |= _of_the_rule(credit)
    if collapsed:
        for name in CLAMPED:
            if name in measures:
                measures[name] = replace(measures[name], note=f"{INVALID}; {measures[name].note}")
    return measures


def _of_the_rule(credit: CreditEvidence) -> dict[str, Measurement]:
    """What only some rules have: the residual of a bridge, the noise of an estimate, the angles of learnt feedback."""
    measures = {}
    if credit.residual is not None:
        note = f"distance of the learned bridge from its target, {credit.images:,} images"
        measures["bridge_residual"] = Measurement(credit.residual, note=note)
    if credit.noise:
        note = "what a correct estimate from so few random directions has: √(K/(K + d + 1)); read Γ beside it"
        measures["gamma_noise"] = _layered(credit.noise, credit, note)
    if credit.angles:
        measures["feedback_angle"] = _angles(credit.angles)
    return measures


def _alignment(credit: CreditEvidence) -> dict[str, Measurement]:
    aligned = credit.alignment
    return {
        "gamma": _layered(aligned.exact, credit, f"mean cosine of credit and gradient{_gaps(credit)}"),
        "gamma_clamped": _layered(aligned.clamped, credit, "as by F.cosine_similarity: each norm at least 1e-8"),
        "gamma_clamped_mean": Measurement(
            mean(aligned.clamped),
            note="Γ as usually reported: clamped cosine, averaged over samples, then over layers 0..L",
        ),
    }


def _gaps(credit: CreditEvidence) -> str:
    """How many samples have no cosine, if any."""
    undefined = max(credit.alignment.undefined, default=0)
    return f"; undefined for up to {undefined:,} of {credit.alignment.samples:,} samples" if undefined else ""


def _chance(credit: CreditEvidence) -> dict[str, Measurement]:
    """Γ of fresh feedback, of permuted labels and of random vectors, where they were measured."""
    measures = _null(credit.null, credit) if isinstance(credit.null, Null) else {}
    if isinstance(credit.label_dependence, LabelDependence):
        measures["label_dependence"] = _label_dependence(credit.label_dependence, credit)
    if credit.random:
        note = f"Γ of one random vector per image, {credit.images:,} images: calibration only"
        measures["gamma_random"] = Measurement(deep_mean(credit.random), credit.random, note=note)
    return measures


def _null(null: Null, credit: CreditEvidence) -> dict[str, Measurement]:
    by_layer = tuple(mean(layer) for layer in zip(*null.draws, strict=True))
    kind = f"mean Γ of {len(null.draws)} draws with fresh feedback, {null.images:,} images"
    measures = {"gamma_null": _layered(by_layer, credit, kind)}
    if len(null.draws) > 1:
        spreads = tuple(spread(layer) for layer in zip(*null.draws, strict=True))
        note = "standard deviation of Γ over these draws, ddof 1; value: mean over layers 1..L"
        measures["gamma_null_std"] = Measurement(deep_mean(spreads, credit.exact_layers), spreads, note=note)
    return measures


def _label_dependence(labels: LabelDependence, credit: CreditEvidence) -> Measurement:
    """Γ - mean over the permutations of Γ', per layer; the note has its standard deviation over them."""
    by_layer = zip(labels.own, zip(*labels.draws, strict=True), strict=True)
    falls = tuple(own - mean(draws) for own, draws in by_layer)
    deep = [deep_mean(draw, credit.exact_layers) for draw in labels.draws]
    note = (
        f"how far Γ falls when the labels are permuted, ± {spread(deep):.2g} over {len(deep)} permutations, "
        f"{labels.images:,} images"
    )
    return _layered(falls, credit, note)


def _interventions(probe: Interventions, credit: CreditEvidence) -> dict[str, Measurement]:
    on = f"{credit.images:,} images"
    relative = f"step 1e-3·‖h‖, losses in {probe.precision}, {on}{_drawn(probe.directions, probe.error)}"
    absolute = f"step 1e-3, own precision, {on}{_drawn(probe.directions_absolute, probe.error_absolute)}"
    return {
        "rho": _layered(
            probe.rho, credit, f"predicted against measured changes of the loss; {relative}", _beside(probe.rho_bp)
        ),
        "rho_bp": Measurement(
            deep_mean(probe.rho_bp),
            probe.rho_bp,
            note=f"of the backprop gradient: {relative}; value: mean over layers 1..L",
        ),
        "rho_absolute": _layered(
            probe.rho_absolute, credit, f"as published: {absolute}", _beside(probe.rho_absolute_bp)
        ),
        "rho_absolute_bp": Measurement(
            deep_mean(probe.rho_absolute_bp), probe.rho_absolute_bp, note=f"of the backprop gradient: {absolute}"
        ),
        "nudge": _layered(probe.nudge, credit, f"change of the loss, step 0.01·rms(h) against credit, {on}"),
        "nudge_absolute": _layered(probe.nudge_absolute, credit, f"change of the loss, step 0.01 against credit, {on}"),
    }


def _drawn(directions: Sequence[int], error: float) -> str:
    """How many directions were drawn, and how closely they determine ρ."""
    if not any(directions):
        return ""
    least, most = min(filter(None, directions)), max(directions)
    many = f"{most}" if least == most else f"{least} to {most}"
    known = "" if math.isnan(error) else f", which give ρ to ± {error:.1g} or closer"
    return f", {many} directions each{known}"


def _beside(gradient: Layers) -> str:
    return f"the backprop gradient itself scores {deep_mean(gradient):.3g}"


def _layered(values: Layers, credit: CreditEvidence, note: str, beside: str = "") -> Measurement:
    """A measurement whose value is the deep mean; the note gives layer 0 and the mean with exact layers."""
    parts = [note, "value: mean over layers 1..L" if len(values) > 1 else "", beside]
    exact = sorted(layer for layer in credit.exact_layers if 0 < layer < len(values))
    if exact and len(exact) < len(values) - 1:
        which = ", ".join(map(str, exact))
        parts.append(f"without layer {which}, exact by construction (with it {mean(values[1:]):.3g})")
    elif exact:
        parts.append("exact by construction at every deep layer")
    parts.append(f"layer 0 separately: {values[0]:.3g}")
    return Measurement(deep_mean(values, credit.exact_layers), values, note="; ".join(part for part in parts if part))


def _drift(drift: Layers) -> Measurement:
    """The drift of the stage that produces h_l, per layer; that of the read-out is in the note."""
    note = f"‖W - W_init‖/‖W_init‖ of the stage that produces h_l; value: mean over blocks; read-out {drift[-1]:.3g}"
    return Measurement(mean(drift[1:-1]), drift[:-1], note=note)


def _angles(angles: Mapping[str, float]) -> Measurement:
    """The mean angle over the weights; each one is in the note."""
    each = ", ".join(f"{name} {angle:.3g}" for name, angle in angles.items())
    return Measurement(mean(tuple(angles.values())), note=f"degrees between B and W, mean over the weights: {each}")


def bad_weights(model: nn.Module) -> int:
    """Non-finite numbers in parameters and NaN in buffers; finite sums show at once that there are none.

    A buffer may hold infinities on purpose, as the -inf of an attention mask; no parameter is trained to one.
    """
    parameters = [tensor for tensor in model.parameters() if tensor.is_floating_point()]
    buffers = [tensor for tensor in model.buffers() if tensor.is_floating_point()]
    if not parameters and not buffers:
        return 0
    anchor = (parameters or buffers)[0].device
    with torch.no_grad():
        sums = [tensor.sum().to(anchor) for tensor in (*parameters, *buffers)]
        if bool(torch.stack(sums).isfinite().all()):
            return 0
        return sum(int(non_finite(tensor)) for tensor in parameters) + sum(
            int(buffer.isnan().sum()) for buffer in buffers
        )


def norm_measures(evidence: Evidence) -> dict[str, Measurement]:
    """Numbers without a limit: the median norms per layer and the gain of the read-out."""
    hidden = evidence.hidden_medians.tolist()
    gradient = evidence.gradient_medians.tolist()
    measures = {
        "hidden_norm": Measurement(hidden[-1], tuple(hidden), note="median ‖h_l‖; value: the deepest"),
        "gradient_norm": Measurement(gradient[-1], tuple(gradient), note="median ‖g_l‖ of each sample's own loss"),
    }
    if not isinstance(evidence.error_norms, Missing):
        measures["gain"] = Measurement(reference_gain(evidence), note="median ‖g_L‖/‖e‖")
    return measures
