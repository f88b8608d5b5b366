"""D8, label leak: predictions that change with the labels of the batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D8",
    title="Label leak",
    question="do the predictions depend on the labels that are passed in?",
    formula="The share of images whose logits change when the labels are permuted.\n\n"
    "share of i with y'_i ≠ y_i for which ‖logits_i(y') - logits_i(y)‖ > 1e-3·‖logits_i(y)‖",
    limit=Limit(
        at=0.0,
        fires="above",
        unit="absolute",
        because="an answer that depends on its label is not a prediction; a single one invalidates the accuracy",
    ),
    means="With other labels the method answers differently for the same images: its inference phase sees the labels, "
    "or leaves a trace of them in the network. Its accuracy is not a test accuracy.",
    does_not_mean="It does not say how much of the accuracy is due to the leak, or that training is at fault. A pass "
    "does not rule out that test images were used in training.",
    do="Predict from the inputs alone, without clamped targets and without states left over from a nudged phase. "
    "Measure the accuracy again, and say how it was measured.",
    warns=True,
)
def label_leak(evidence: Evidence) -> Measurement | Missing:
    """The share of images whose answer changes with the labels."""
    leak = evidence.leak
    if isinstance(leak, Missing):
        return leak
    note = f"{leak.images:,} images"
    if leak.share:
        note = f"the logits of {leak.share:.1%} of {note} change with their labels; {leak.flipped:,} predictions flip"
    return Measurement(leak.share, note=note)
