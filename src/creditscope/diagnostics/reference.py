"""D2, reference validity: the size of the backprop gradient at the deepest state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.batch import PUBLISHED_BATCH
from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

FLOOR = 1e-7  # 10 x eps of F.cosine_similarity
DO_WHEN_COLLAPSED = (
    "Report exact cosines (no eps), not clamped ones, and how many samples have none. Keep the scale of the stream "
    "bounded."
)


@diagnostic(
    "D2",
    title="Reference validity",
    question="is the reference gradient large enough for a cosine with it?",
    formula="The size of the reference gradient at the deepest state, as a batch of 128 under a mean loss shows it.\n\n"
    "median over all images of ‖g_L‖ / 128;   gain = median of ‖g_L‖/‖e‖ over images with e ≠ 0;\n"
    "cause `collapsed` if gain/128 < 1e-7, else `fitted`",
    limit=Limit(
        at=FLOOR,
        fires="below",
        because="ten times the eps of F.cosine_similarity, which clamps smaller norms; healthy networks have 1e-4, "
        "collapsed ones 4e-9 or less",
    ),
    means="The backprop gradient at the deepest state is so small that the usual cosine compares credit with "
    "its own clamp. Cause `collapsed`: the read-out passes almost nothing back (its Jacobian shrinks with 1/‖h_L‖). "
    "Cause `fitted`: the gradient is small because the errors are small, and the reference is sound.",
    does_not_mean="It does not mean that rounding destroyed the gradient: in float32 its direction is still exact. "
    "With cause `fitted` it is not a failure, and Γ stays valid.",
    do="Report the gain beside the value: only a small gain means that the reference collapsed.",
    do_by_cause={
        "collapsed": DO_WHEN_COLLAPSED,
        "fitted": "Report the gain beside the value: the gradient is small because the errors are.",
    },
    column="‖g‖/128",
)
def reference_validity(evidence: Evidence) -> Measurement:
    """The median norm of g_L over 128; the gain tells a collapsed reference from a fitted network."""
    medians = evidence.gradient_medians / PUBLISHED_BATCH
    gain = reference_gain(evidence)
    value = medians[-1].item()
    cause = "" if gain != gain else "collapsed" if gain / PUBLISHED_BATCH < FLOOR else "fitted"
    unknown = isinstance(evidence.error_norms, Missing)
    note = "gain ‖g_L‖/‖e‖ not known" if unknown else f"gain ‖g_L‖/‖e‖ {gain:.3g}"
    if value < FLOOR:
        why = "no logits were given" if unknown else "no image has an error"
        note += f": {cause or f'{why}, so collapsed cannot be told from fitted'}"
    return Measurement(value, per_layer=tuple(medians.tolist()), cause=cause, note=note)


def reference_gain(evidence: Evidence) -> float:
    """Median of ‖g_L‖/‖e‖ over the samples with an error; NaN if there is none."""
    wrong = evidence.errors > 0
    ratios = evidence.gradient_norms[-1][wrong] / evidence.errors[wrong]
    return ratios.median().item() if len(ratios) else float("nan")
