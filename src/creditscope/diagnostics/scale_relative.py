"""D1: how far does the residual stream leave the scale of layer 0?

The earlier form of the question, of the profile `april`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D1",
    variant="april",
    title="Scale relative to layer 0",
    limit=Limit(at=50.0, fires="above", because="the published limit of the earlier protocol"),
    means="Some state is far larger than the embedding's.",
    does_not_mean="It false-fires on healthy vision transformers, whose class token starts tiny. It is kept for parity "
    "with old reports.",
    do="Use the per-block form: protocol `three` or `four`.",
)
def scale_relative_to_the_embedding(evidence: Evidence) -> Measurement:
    """Largest scale of any state relative to the embedding's.

    max over l of  m_l/m_0,   m_l = median over all images of ‖h_l‖
    """
    medians = evidence.hidden_medians
    ratios = medians / medians[0]
    return Measurement(ratios.max().item(), per_layer=tuple(ratios.tolist()))
