"""D4: does one direction dominate the reference gradients of different batches?"""

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
    limit=Limit(
        at=0.30,
        fires="above",
        unit="absolute",
        because="at initialisation and under backprop the value lies between 0.08 and 0.18",
    ),
    means="The mean gradients of disjoint batches point the same way: a common offset, not the samples, makes up the "
    "reference.",
    does_not_mean="It is bimodal across seeds and fails no network by itself outside the four-flag profiles. A low "
    "value does not make the reference valid.",
    do="Read it together with D2. Report it over several seeds.",
)
def reference_drift(evidence: Evidence) -> Measurement | Missing:
    """Agreement of batch-mean gradient directions at the middle of the stream.

    u_k = mean of g_l over 128 consecutive images, divided by its norm, at l = max(1, (L+1)//2);
    value = mean over pairs j < k of ⟨u_j, u_k⟩ = (‖Σ u_k‖² - K)/(K(K - 1))
    """
    directions = evidence.directions
    if directions is None:
        return Missing(Reason.TOO_FEW, "needs two disjoint batches, one was given")
    layers = len(directions.sums)
    layer = stability_layer(layers - 1)
    values = tuple(_agreement(directions, index) for index in range(layers))
    kind = "batches" if directions.size is None else f"groups of {directions.size} images"
    note = f"at layer {layer}, {directions.groups} {kind}"
    if directions.groups < CALIBRATED_GROUPS or directions.size is None:
        note += f"; below calibration ({CALIBRATED_GROUPS} groups of 128)"
    return Measurement(values[layer], per_layer=values, note=note)


def stability_layer(depth: int) -> int:
    """The layer at which drift is measured: max(1, (L+1)//2), or the only one there is."""
    return min(depth, max(1, (depth + 1) // 2))


def _agreement(directions: Directions, layer: int) -> float:
    if directions.vanished[layer]:
        return float("nan")
    count = directions.groups
    return ((directions.sums[layer] ** 2).sum().item() - count) / (count * (count - 1))
