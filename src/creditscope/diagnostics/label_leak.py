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
    formula="The share of images whose logits change under at least one of up to 9 other labellings of their batch.\n\n"
    "share of i with ‖z_i(y') - z_i(y)‖ > 1e-4·scale for some y' with y'_j ≠ y_j for all j,   z the logits,\n"
    "scale = median over images of ‖z_i - m‖, m the mean over classes or over images, whichever leaves less;\n"
    "changes below 4 units in the last place of z_i are rounding",
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
    images = f"{leak.images:,} images"
    flipped = f"{leak.flipped:,} prediction{' flips' if leak.flipped == 1 else 's flip'}"
    note = f"{images}, {leak.trials} other {'labelling' if leak.trials == 1 else 'labellings'} of each batch"
    if leak.share:
        note = f"the logits of {leak.share:.1%} of {images} change with their labels; {flipped}"
    return Measurement(leak.share, note=note)
