"""D1:stream, the companion of D1: the growth of the residual stream between any two of its states."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from torch import Tensor

    from creditscope.evidence.records import Evidence

TAIL = 0.95


@diagnostic(
    "D1",
    variant="stream",
    title="Scale of the stream",
    question="does the residual stream keep its scale from the embedding to the last block?",
    formula="The largest growth between any two states, of the median image and of the images' own tail.\n\n"
    "max over k < l of  m_l/m_k,  and of the 95th percentile over images of ‖h_l‖/‖h_k‖",
    limit=Limit(
        at=7.4e3,
        fires="above",
        because="the geometric middle of a gap: sound networks grow by a factor of 70 at most (a class token that "
        "starts small), exploded ones by 7.9e+05 and more (docs/validation.md)",
    ),
    means="The stream has grown by orders of magnitude, over several blocks or in a part of the images: D1, which "
    "looks at one block and at the median image, can miss that.",
    does_not_mean="Growth alone is not a failure. It fails a network only together with a collapsed reference (D2).",
    do="Look at ‖h‖ per layer. Add a penalty λ‖f(h)‖² to the local losses of the blocks (start with λ = 1e-2), or "
    "normalise the credit over the batch instead of per sample.",
)
def stream_growth(evidence: Evidence) -> Measurement | Missing:
    """The largest ratio of a later state's length to an earlier one's, by medians and by the images' tail."""
    norms = evidence.hidden_norms
    if len(norms) < 2:
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks to grow across")
    medians = evidence.hidden_medians
    pairs = [(early, late) for early in range(len(norms)) for late in range(early + 1, len(norms))]
    middle = {pair: (medians[pair[1]] / medians[pair[0]]).item() for pair in pairs}
    tail = {pair: _tail(norms[pair[1]] / norms[pair[0]]) for pair in pairs}
    largest = {pair: max(middle[pair], tail[pair], key=_worst) for pair in pairs}
    early, late = max(pairs, key=lambda pair: _worst(largest[pair]))
    return Measurement(
        largest[early, late],
        note=f"from h_{early} to h_{late}: {middle[early, late]:.3g} in the median image, {tail[early, late]:.3g} at "
        "the 95th percentile",
    )


def _tail(ratios: Tensor) -> float:
    """The 95th percentile; ratios that are NaN sort last."""
    return ratios.kthvalue(1 + int(TAIL * (len(ratios) - 1))).values.item() if len(ratios) else math.nan


def _worst(value: float) -> float:
    """NaN counts as the largest of all: it must never pass."""
    return math.inf if math.isnan(value) else value
