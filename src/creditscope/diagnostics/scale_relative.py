"""D1:april, scale relative to layer 0: the form of D1 in protocol `april`."""

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
    question="how far does the residual stream move from the scale of layer 0?",
    formula="The largest scale of any state relative to the embedding's.\n\n"
    "max over l of  m_l/m_0,   m_l = median over all images of ‖h_l‖",
    limit=Limit(at=50.0, fires="above", because="the published limit of the earlier protocol"),
    means="Some state is far larger than the embedding's.",
    does_not_mean="It fires on healthy vision transformers, whose class token starts tiny. It is kept so that old "
    "reports can be compared.",
    do="Use the form per block: protocol `three` or `four`.",
    column="‖h‖/‖h_0‖",
)
def scale_relative_to_the_embedding(evidence: Evidence) -> Measurement:
    """The largest ratio of a median norm to that of layer 0."""
    medians = evidence.hidden_medians
    ratios = medians / medians[0]
    return Measurement(ratios.max().item(), per_layer=tuple(ratios.tolist()))
