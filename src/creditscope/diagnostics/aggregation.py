"""D5, aggregation: how much of the mean alignment one layer carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.diagnostics.content import FLOOR, GATED
from creditscope.statistics.layers import inexact, leave_best_out_ratio, mean, z_score
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.credit import CreditEvidence
    from creditscope.evidence.records import Evidence

FEWEST = 3


@diagnostic(
    "D5",
    title="Aggregation",
    question="does more than one layer carry the average alignment?",
    formula="What remains of the mean alignment without its largest layer.\n\n"
    "R = mean of Γ_l without the largest / mean of all Γ_l,   exact layers left out",
    limit=Limit(
        at=1 / 3,
        fires="below",
        unit="absolute",
        because="the published DFA profile has -0.05; DFA with a penalty has 0.84 to 0.90, FA 0.79, backprop 1",
    ),
    means="One layer, usually the embedding, makes up the average Γ. Little remains without it: the average describes "
    "that layer and says nothing about depth.",
    does_not_mean="It does not say that the deep layers are badly aligned in every network or epoch, or that the one "
    "aligned layer is useless. A profile may also be even at a low level: see D6.",
    do="Report Γ per layer. If a single number is needed, report layer 0 and the mean over the deep layers separately.",
)
def aggregation(evidence: Evidence) -> Measurement | Missing:
    """The share of the mean Γ that remains without its largest layer."""
    credit = evidence.credit
    if isinstance(credit, Missing):
        return credit
    left_out = credit.exact_layers | evidence.untrusted
    gammas = inexact(credit.alignment.exact, left_out)
    if not gammas and evidence.untrusted:
        return Missing(Reason.GATED, GATED)
    if not gammas:
        return Missing(Reason.NOT_APPLICABLE, "the credit is the gradient by construction at every layer")
    if len(gammas) < FEWEST:
        return Missing(Reason.TOO_FEW, f"needs {FEWEST} layers whose credit is not exact, got {len(gammas)}")
    overall = mean(gammas)
    if overall <= 0:
        text = f"the mean of Γ over the layers is {overall:.3g}, so no layer can carry it"
        return Missing(Reason.NOT_APPLICABLE, text)
    z = _null_z_score(credit, left_out)
    if z < FLOOR:
        text = f"the mean of Γ over the layers, {overall:.3g}, is within its null (z = {z:.1f})"
        return Missing(Reason.NOT_APPLICABLE, text)
    share = leave_best_out_ratio(gammas)
    note = f"mean Γ {overall:.3g}, {share * overall:.3g} without its largest layer"
    return Measurement(share, note=note)


def _null_z_score(credit: CreditEvidence, left_out: frozenset[int]) -> float:
    """The z-score of the mean over all layers under fresh feedback, or else under permuted labels; NaN without either.

    Permuted labels are no null of alignment, but credit that does not even depend on them has no profile to speak of.
    """
    chance = credit.label_dependence if isinstance(credit.null, Missing) else credit.null
    if isinstance(chance, Missing):
        return float("nan")
    draws = [mean(inexact(draw, left_out)) for draw in chance.draws]
    return z_score(mean(inexact(chance.own, left_out)), draws)
