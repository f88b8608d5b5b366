"""D12, dead blocks: the influence of each block on the loss, free of units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

BYPASSED = 1e-3  # of the most influential block: worth a note


@diagnostic(
    "D12",
    title="Dead blocks",
    question="does any block move the loss?",
    formula="The largest influence of any block.\n\n"
    "max over l of the median of  c_l = ‖h_{l+1} - h_l‖·‖g_{l+1}‖/‖e‖  over images with e ≠ 0;\n"
    "where states have positions, the sum over positions of the products of their norms",
    limit=Limit(
        at=5.9e-6,
        fires="below",
        because="the geometric middle of a gap: in sound networks the most influential block has 1.9e-05 and more "
        "(branches that start small); where no block moves the loss at the resolution of float32, 1.9e-06 and less. "
        "The gap is not a decade wide, so that D12 only advises (docs/validation.md)",
    ),
    means="No block changes the stream in a way that the loss feels: the network is its embedding and its read-out.",
    does_not_mean="A single block without influence is not a failure; it is named in the note. Influence does not say "
    "that a block has learnt anything: see D3 and D10. Positions count each by itself, as in D11: changes that "
    "cancel over positions are influence too.",
    do="Look at the influence per block. A branch that is multiplied by zero, or a stream so large that branches no "
    "longer change it, are the usual reasons.",
    column="influence",
)
def dead_blocks(evidence: Evidence) -> Measurement | Missing:
    """The largest median influence over the blocks whose input and output have one shape."""
    influences = evidence.influences
    if not len(influences):
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks")
    if isinstance(evidence.error_norms, Missing):
        return evidence.error_norms
    if not influences.shape[1]:
        return Measurement(float("nan"), note="no image has an error, so influences are 0/0")
    comparable = evidence.same_shape
    if not any(comparable):
        return Missing(Reason.NOT_APPLICABLE, "every block changes the shape of the stream: D11 judges its states")
    medians = influences.median(dim=1).values.tolist()
    judged = {block: medians[block] for block, same in enumerate(comparable) if same}
    most = max(judged, key=lambda block: judged[block] if judged[block] == judged[block] else float("inf"))
    idle = [block for block, value in judged.items() if value < BYPASSED * judged[most]]
    note = f"most influential: block {most}"
    if idle:
        note += f"; without influence: block{'s' if len(idle) > 1 else ''} {', '.join(map(str, idle))}"
    return Measurement(judged[most], per_layer=tuple(medians), axis="block", note=note)
