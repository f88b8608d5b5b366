"""D11, dead states: the sensitivity of the loss to each state, free of units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D11",
    title="Dead states",
    question="does the loss depend on every state?",
    formula="The smallest relative sensitivity of any state, at the 10th percentile of the images.\n\n"
    "min over l of the 10th percentile of  s_l = ‖h_l‖·‖g_l‖/‖e‖  over images with e ≠ 0;\n"
    "where a state has positions (tokens, pixels), Σ over positions of ‖h_{l,p}‖·‖g_{l,p}‖ in place of ‖h_l‖·‖g_l‖",
    limit=Limit(
        at=5.4e-6,
        fires="below",
        because="the geometric middle of a gap: sound networks have 2.4e-05 and more, at initialisation and trained; "
        "states that the loss does not depend on at the resolution of float32 1.2e-06 and less (docs/validation.md)",
    ),
    means="For a tenth of the images or more the loss hardly moves when this state moves by its own size: the network "
    "does not use it, and a gradient at it carries nothing.",
    does_not_mean="It does not depend on the stream's units: an exploded stream behind a LayerNorm has a tiny gradient "
    "and a normal sensitivity. A small value is not vanishing credit of a method: it is the true gradient's. "
    "Where a state has positions, each moves by its own size in its own direction: the loss may still ignore a shift "
    "of all of them alike, as it does behind an InstanceNorm, so that summed gradients would call a sound state dead.",
    do="Look at the layer where the sensitivity falls. A read-out that was scaled away, a saturated activation or a "
    "block that overwrites the stream are the usual reasons. Report no alignment at that layer.",
    column="sensitivity",
)
def dead_states(evidence: Evidence) -> Measurement | Missing:
    """The smallest 10th percentile of the relative sensitivity over the states."""
    if isinstance(evidence.error_norms, Missing):
        return evidence.error_norms
    sensitivities = evidence.sensitivities
    if not sensitivities.shape[1]:
        return Measurement(float("nan"), note="no image has an error, so sensitivities are 0/0")
    tails = evidence.sensitivity_tails
    lowest = int(tails.nan_to_num(nan=float("-inf")).argmin())
    return Measurement(
        tails[lowest].item(),
        per_layer=tuple(tails.tolist()),
        note=f"lowest at h_{lowest}; median there {sensitivities[lowest].median().item():.3g}",
    )
