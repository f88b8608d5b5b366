"""D5: does more than one layer carry the average alignment?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.diagnostics.content import FLOOR, GATED
from creditscope.statistics.layers import inexact, mean, standing, survives
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.credit import CreditEvidence
    from creditscope.evidence.records import Evidence

FEWEST = 3


@diagnostic(
    "D5",
    title="Aggregation",
    limit=Limit(
        at=1 / 3,
        fires="below",
        unit="absolute",
        because="the published DFA profile has -0.05; DFA with a penalty has 0.84 to 0.90, FA 0.79, backprop 1",
    ),
    means="One layer, mostly the embedding's, makes up the average Γ. Without it hardly anything is left: the average "
    "speaks of that layer and says nothing about depth.",
    does_not_mean="It does not say that the deep layers are badly aligned for every network or epoch, nor that the one "
    "aligned layer is useless. An even profile can still be even at a low level: see D6.",
    do="Print Γ per layer. If one number is needed, print layer 0 and the mean over the deep layers apart.",
)
def aggregation(evidence: Evidence) -> Measurement | Missing:
    """What survives of the mean alignment when its best layer is removed.

    R = mean of Γ_l without the largest / mean of all Γ_l,   exact layers left out
    """
    credit = evidence.credit
    if credit is None:
        return evidence.credit_missing
    gammas = inexact(credit.alignment.exact, credit.exact)
    if not gammas:
        return Missing(Reason.NOT_APPLICABLE, "the credit is the gradient by construction, at every layer")
    if len(gammas) < FEWEST:
        return Missing(Reason.TOO_FEW, f"needs {FEWEST} layers whose credit is not exact, there are {len(gammas)}")
    overall = mean(gammas)
    if overall <= 0:
        return Missing(
            Reason.NOT_APPLICABLE,
            f"the mean of Γ over the layers is {overall:.3g}: there is no alignment to be carried",
        )
    z = _standing(credit)
    if z < FLOOR:
        return Missing(
            Reason.NOT_APPLICABLE, f"the mean of Γ over the layers, {overall:.3g}, lies inside its null (z = {z:.1f})"
        )
    share = survives(gammas)
    note = f"mean Γ {overall:.3g}, without its largest layer {share * overall:.3g}"
    measured = Measurement(share, note=note)
    return Missing(Reason.GATED, GATED, measured) if evidence.collapsed else measured


def _standing(credit: CreditEvidence) -> float:
    """z of the mean over all layers against its null; NaN without one."""
    if credit.null is None:
        return float("nan")
    draws = [mean(inexact(draw, credit.exact)) for draw in credit.null.draws]
    return standing(mean(inexact(credit.null.own, credit.exact)), draws)
