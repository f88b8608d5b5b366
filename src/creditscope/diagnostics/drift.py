"""D4, reference drift: the agreement of mean gradient directions between batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Directions, Evidence

CALIBRATED_GROUPS = 8


@diagnostic(
    "D4",
    title="Reference drift",
    question="does one direction dominate the reference gradients of different batches?",
    formula="The agreement of batch-mean gradient directions in the middle of the stream.\n\n"
    "u_k = mean of g_l over 128 consecutive images, divided by its norm, at l = max(1, (L+1)//2);\n"
    "mean over pairs j < k of ⟨u_j, u_k⟩ = (‖Σ u_k‖² - K)/(K(K - 1))",
    limit=Limit(
        at=0.30,
        fires="above",
        unit="absolute",
        because="the value lies between 0.08 and 0.18 at initialisation and under backprop",
    ),
    means="The mean gradients of disjoint batches point the same way: a common offset dominates the reference, not "
    "the samples.",
    does_not_mean="It varies strongly between seeds; only protocols `four` and `april` let it fail a network. A low "
    "value does not make the reference valid.",
    do="Read it together with D2, and report it over several seeds.",
    column="drift",
)
def reference_drift(evidence: Evidence) -> Measurement | Missing:
    """The mean pairwise cosine of the group directions at the middle layer."""
    directions = evidence.directions
    if directions is None:
        return Missing(Reason.TOO_FEW, "needs at least two disjoint batches, got one")
    layers = len(directions.sums)
    layer = stability_layer(layers - 1)
    values = tuple(_agreement(directions, index) for index in range(layers))
    return Measurement(values[layer], per_layer=values, note=f"layer {layer}; {_groups(directions)}")


def _groups(directions: Directions) -> str:
    """How many groups were compared, and on how many the limit was calibrated where those were more."""
    if directions.size is None:
        return f"{directions.groups} batches (the limit was calibrated on {CALIBRATED_GROUPS} groups of 128 images)"
    fewer = f" (the limit was calibrated on {CALIBRATED_GROUPS})" if directions.groups < CALIBRATED_GROUPS else ""
    return f"{directions.groups} groups of {directions.size} images{fewer}"


def stability_layer(depth: int) -> int:
    """The layer at which drift is measured: max(1, (L+1)//2), or 0 in a network without blocks."""
    return min(depth, max(1, (depth + 1) // 2))


def _agreement(directions: Directions, layer: int) -> float:
    if directions.vanished[layer]:
        return float("nan")
    count = directions.groups
    return ((directions.sums[layer] ** 2).sum().item() - count) / (count * (count - 1))
