"""D1: does the residual stream keep its scale from block to block?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D1",
    title="Scale stability",
    limit=Limit(at=50.0, fires="above", because="backprop grows the stream 1-11x a block, exploded ones 694x and more"),
    means="One block multiplies the scale of the residual stream. A local objective ⟨f(h), a⟩ rewards growth of ‖f‖, "
    "and a terminal LayerNorm hides the growth from the loss.",
    does_not_mean="Growth alone is no failure: FA on a residual MLP grows 89x to 503x in a block, keeps a valid "
    "reference and uses its depth. It fails a network only together with a collapsed reference (D2).",
    do="Look at the growth per block. Add a penalty λ‖f(h)‖² to the blocks' local losses (λ = 1e-2 is a start), or "
    "normalise the credit over the batch instead of per sample.",
)
def scale_stability(evidence: Evidence) -> Measurement | Missing:
    """Largest growth of the residual stream across any one block.

    max over l of  m_{l+1}/m_l,   m_l = median over all images of ‖h_l‖
    """
    medians = evidence.hidden_medians
    if len(medians) < 2:
        return Missing(Reason.NOT_APPLICABLE, "a stream without blocks has no growth")
    growth = medians[1:] / medians[:-1]
    worst = int(growth.nan_to_num(nan=float("inf")).argmax())
    return Measurement(
        growth[worst].item(),
        per_layer=tuple(growth.tolist()),
        axis="block",
        note=f"largest across block {worst}, h_{worst} to h_{worst + 1}",
    )
