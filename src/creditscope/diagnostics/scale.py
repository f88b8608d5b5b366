"""D1, scale stability: the growth of the residual stream across each block."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

GROWN = 50.0  # times as large as before
DO = (
    "Look at ‖h‖ and its growth per block. Add a penalty λ‖f(h)‖² to the local losses of the blocks (start with λ = "
    "1e-2), or normalise the credit over the batch instead of per sample."
)


@diagnostic(
    "D1",
    title="Scale stability",
    question="does the residual stream keep its scale from block to block?",
    formula="The largest growth of the residual stream across any one block.\n\n"
    "max over l of  m_{l+1}/m_l,   m_l = median over all images of ‖h_l‖",
    limit=Limit(
        at=GROWN,
        fires="above",
        because="trained by backprop, blocks grow the stream by a factor of 1 to 11; exploded ones by 694 or more",
    ),
    means="One block multiplies the scale of the residual stream. A local objective ⟨f(h), a⟩ rewards growth of ‖f‖, "
    "and a terminal LayerNorm hides the growth from the loss.",
    does_not_mean="Growth alone is not a failure: FA on a residual MLP grows the stream by 89x to 503x in one block, "
    "keeps a valid reference and uses its depth. D1 fails a network only together with a collapsed reference (D2).",
    do=DO,
    column="growth",
)
def scale_stability(evidence: Evidence) -> Measurement | Missing:
    """The largest ratio of consecutive median norms."""
    medians = evidence.hidden_medians
    if len(medians) < 2:
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks to grow across")
    growth = medians[1:] / medians[:-1]
    worst = int(growth.nan_to_num(nan=float("inf")).argmax())
    return Measurement(
        growth[worst].item(),
        per_layer=tuple(growth.tolist()),
        axis="block",
        note=f"largest across block {worst}, h_{worst} to h_{worst + 1}",
    )
