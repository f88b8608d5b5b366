"""D2:tail, the companion of D2: the reference gradient of the images with the smallest one, at any state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.batch import PUBLISHED_BATCH
from creditscope.diagnostics import diagnostic
from creditscope.diagnostics.reference import DO_WHEN_COLLAPSED, FLOOR
from creditscope.diagnostics.scale import GROWN
from creditscope.modes import WITHOUT_GROWTH
from creditscope.verdict import Limit, Measurement, Missing

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D2",
    variant="tail",
    title="Reference of the tail",
    question="is the reference gradient large enough in every part of the images and at every state?",
    formula="The smallest gain of any state, at the 10th percentile of the images, as a batch of 128 under a mean loss "
    "would show it.\n\n"
    "min over l of the 10th percentile of ‖g_l‖/‖e‖ over images with e ≠ 0, divided by 128;\n"
    f"cause `{WITHOUT_GROWTH}` if no state with so small a gain is over {GROWN:g} times as large as an earlier one",
    limit=Limit(
        at=FLOOR,
        fires="below",
        because="the limit of D2: 10 x eps of F.cosine_similarity. Dividing by the error takes the fit out, so that a "
        "network that fits its data does not fire",
    ),
    means="For a tenth of the images or more the gradient lies below the clamp of the usual cosine at some state: that "
    "cosine then compares credit with its clamp, even where the median image is sound.",
    does_not_mean="It does not mean that the gradient is wrong, nor that the loss ignores the state: an exploded "
    f"stream has a small gradient in its own units. D11 tells the two apart. With cause `{WITHOUT_GROWTH}` the stream "
    "has not grown where the gradient is small: that is no explosion.",
    do=DO_WHEN_COLLAPSED,
    column="",
)
def reference_tail(evidence: Evidence) -> Measurement | Missing:
    """The smallest 10th percentile of the gain over the states."""
    if isinstance(evidence.error_norms, Missing):
        return evidence.error_norms
    if not bool((evidence.error_norms > 0).any()):
        return Measurement(float("nan"), note="no image has an error, so gains are 0/0")
    tails = evidence.gain_tails / PUBLISHED_BATCH
    lowest = int(tails.nan_to_num(nan=float("-inf")).argmin())
    collapsed = {layer for layer, tail in enumerate(tails.tolist()) if not tail >= FLOOR}
    grown = {growth.late for growth in evidence.growths if not (growth.middle <= GROWN and growth.tail <= GROWN)}
    return Measurement(
        tails[lowest].item(),
        per_layer=tuple(tails.tolist()),
        cause=WITHOUT_GROWTH if collapsed and not collapsed & grown else "",
        note=f"lowest at h_{lowest}",
    )
