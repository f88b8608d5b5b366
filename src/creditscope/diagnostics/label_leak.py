"""D8: do the answers depend on the labels that are handed in?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D8",
    title="Label leak",
    limit=Limit(
        at=0.0,
        fires="above",
        unit="absolute",
        because="an answer that knows its label is not a prediction; one is enough to void the accuracy",
    ),
    means="Handed other labels, the method answers differently for the same images: its inference phase sees the "
    "labels, or leaves something of them behind in the network. Its accuracy is not a test accuracy.",
    does_not_mean="It does not say how much of the accuracy is owed to the leak, nor that training is at fault. A pass "
    "does not rule out that test images were trained on.",
    do="Predict from the inputs alone: no clamped targets, no states left from a nudged phase. Measure the accuracy "
    "again, and say how it was measured.",
    warns=True,
)
def label_leak(evidence: Evidence) -> Measurement | Missing:
    """Share of images whose answer moves when the labels are permuted.

    share of i with y'_i ≠ y_i for which ‖logits_i(y') - logits_i(y)‖ > 1e-3·‖logits_i(y)‖
    """
    leak = evidence.leak
    if leak is None:
        return evidence.credit_missing
    if leak.reason:
        return Missing(Reason.NOT_POSSIBLE, leak.reason)
    moved = f"the logits of {leak.share:.1%} of {leak.images:,} images move with their labels"
    note = f"{moved}, and {leak.flipped:,} predictions change" if leak.share else f"{leak.images:,} images"
    return Measurement(leak.share, note=note)
