"""D7, precision: the reference gradient against the same gradient in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.statistics.layers import deep_mean, z_score
from creditscope.verdict import Limit, Measurement, Missing

if TYPE_CHECKING:
    from creditscope.evidence.credit import CreditEvidence
    from creditscope.evidence.records import Evidence

LIMIT = 0.99


@diagnostic(
    "D7",
    title="Precision",
    question="is the reference gradient the one that float64 would give?",
    formula="The agreement of the reference with itself in float64, at its worst layer.\n\n"
    "min over l of  median over images of cos(g_l, g_l in float64),   from the same weights and inputs",
    limit=Limit(
        at=LIMIT,
        fires="below",
        unit="absolute",
        because="float32 stays above 0.99999999 even on a stream of 1e9; half precision can lose the gradient entirely",
    ),
    means="At some layer the gradient in the model's own precision points in another direction than the same gradient "
    "in float64: rounding or underflow has changed the reference, and Γ with it.",
    does_not_mean="It does not say that training in this precision fails: loss scaling may have kept it sound. A pass "
    "does not make the usual cosine right, which clamps small norms; the note separates clamp from rounding.",
    do="Audit in float32 or float64: call model.float() first. In float16 gradients below 6e-8 are zero; bfloat16 "
    "keeps their size but only three digits.",
    column="",
)
def precision(evidence: Evidence) -> Measurement | Missing:
    """The smallest median cosine of a layer's gradient with its float64 twin."""
    credit = evidence.credit
    if isinstance(credit, Missing):
        return credit
    measured = credit.precision
    if isinstance(measured, Missing):
        return measured
    worst = min(measured.cosines, key=lambda cosine: (cosine == cosine, cosine))  # NaN first
    note = "; ".join([_rounding(worst, measured.dtype), *_clamp_and_content(credit)])
    return Measurement(worst, per_layer=measured.cosines, note=note)


def _rounding(worst: float, dtype: str) -> str:
    """How close the two precisions are at the worst layer."""
    if worst != worst:
        return f"the {dtype} gradient of a layer has no direction"
    if worst < LIMIT:
        return f"{dtype} and float64 disagree, cosine {worst:.3g}"
    return f"{dtype} and float64 agree to {max(1 - worst, 0.0):.1g}"


def _clamp_and_content(credit: CreditEvidence) -> list[str]:
    """What the eps clamp changes in the deep Γ, and how far that Γ is from chance."""
    exact, clamped = (
        deep_mean(side, credit.exact_layers) for side in (credit.alignment.exact, credit.alignment.clamped)
    )
    notes = [f"the eps clamp changes deep Γ by {clamped - exact:.2g}"]
    if not isinstance(credit.null, Missing):
        draws = [deep_mean(draw, credit.exact_layers) for draw in credit.null.draws]
        notes.append(f"z = {z_score(deep_mean(credit.null.own, credit.exact_layers), draws):.3g}")
    return notes
