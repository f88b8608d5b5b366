"""D1:stream, the companion of D1: the growth of the residual stream between any two of its states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.diagnostics.scale import DO
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D1",
    variant="stream",
    title="Scale of the stream",
    question="does the residual stream keep its scale from the embedding to the last block?",
    formula="The largest growth between any two states, of the median image and of the images' own tail.\n\n"
    "max over k < l of  m_l/m_k,  and of the 95th percentile over images of ‖h_l‖/‖h_k‖;\n"
    "where one token is read, also with √(mean over tokens of ‖h_l‖²) in place of ‖h_l‖",
    limit=Limit(
        at=4.6e3,
        fires="above",
        because="the geometric middle of a gap: sound networks grow by a factor of 1.2e+02 at most (24 residual blocks "
        "at initialisation), exploded ones by 1.7e+05 and more (docs/validation.md)",
    ),
    means="The stream has grown by orders of magnitude, over several blocks or in a part of the images: D1, which "
    "looks at one block and at the median image, can miss that.",
    does_not_mean="Growth alone is not a failure. It fails a network only together with a collapsed reference (D2).",
    do=DO,
)
def stream_growth(evidence: Evidence) -> Measurement | Missing:
    """The largest ratio of a later state's length to an earlier one's, by medians and by the images' tail."""
    if len(evidence.hidden_norms) < 2:
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks to grow across")
    most = max(evidence.growths, key=lambda growth: max(map(_rank, (growth.middle, growth.tail))))
    where = ", over all tokens" if most.over_tokens else ""
    return Measurement(
        max(most.middle, most.tail, key=_rank),
        note=f"from h_{most.early} to h_{most.late}: {most.middle:.3g} in the median image, {most.tail:.3g} at the "
        f"95th percentile{where}",
    )


def _rank(value: float) -> float:
    """NaN counts as the largest of all: it must never pass."""
    return math.inf if math.isnan(value) else value
