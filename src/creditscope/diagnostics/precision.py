"""D7: is the reference gradient the one that float64 would give?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.diagnostics.content import GATED
from creditscope.statistics.layers import deep_mean, standing
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.credit import CreditEvidence
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D7",
    title="Precision",
    limit=Limit(
        at=0.99,
        fires="below",
        unit="absolute",
        because="float32 stays above 0.99999999 even on a stream of 1e9; half precision can lose the gradient whole",
    ),
    means="At some layer the gradient of the model's own precision points elsewhere than the same gradient in float64: "
    "rounding or underflow has changed the reference, and Γ with it.",
    does_not_mean="It does not say that training in this precision fails: loss scaling may have kept it sound. A pass "
    "does not make the usual cosine right, which clamps small norms; the note tells clamp and rounding apart.",
    do="Audit in float32 or float64: call model.float() first. In float16 gradients below 6e-8 are zero; bfloat16 "
    "keeps their size but only three digits.",
)
def precision(evidence: Evidence) -> Measurement | Missing:
    """Agreement of the reference with itself in float64, at its worst layer.

    min over l of  median over images of cos(g_l, g_l in float64),   from the same weights and inputs
    """
    credit = evidence.credit
    if credit is None:
        return evidence.credit_missing
    found = credit.precision
    if found is None or not found.cosines:
        return Missing(Reason.NOT_POSSIBLE, found.reason if found else "the gradient was not computed in float64")
    worst = min(found.cosines, key=lambda cosine: (cosine == cosine, cosine))  # NaN first
    note = _told_apart(credit, worst, found.dtype) + (f"; this Γ and z are {GATED}" if evidence.collapsed else "")
    return Measurement(worst, per_layer=found.cosines, note=note)


def _told_apart(credit: CreditEvidence, worst: float, dtype: str) -> str:
    """Rounding, clamp and content in one line."""
    exact, clamped = (deep_mean(side, credit.exact) for side in (credit.alignment.exact, credit.alignment.clamped))
    parts = [f"rounding ({dtype}): 1 - cos {max(1 - worst, 0.0):.1g}", f"clamp: deep Γ {exact:.3g} -> {clamped:.3g}"]
    if credit.null is not None:
        draws = [deep_mean(draw, credit.exact) for draw in credit.null.draws]
        parts.append(f"content: z = {standing(deep_mean(credit.null.own, credit.exact), draws):.3g}")
    return "; ".join(parts)
