"""D6: is there more alignment than chance would give?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.statistics.layers import deep_mean, mean, spread, standing
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

FLOOR = 3.0
GATED = "not interpretable: the reference has collapsed (D2)"


@diagnostic(
    "D6",
    title="Alignment content",
    limit=Limit(
        at=FLOOR,
        fires="below",
        unit="absolute",
        because="three standard deviations of chance; DFA with a penalty has 13, and chance alone 1",
    ),
    means="In the deep layers credit is no closer to the gradient than the same rule with fresh random feedback (or, "
    "for a rule without feedback, than credit for labels that belong to other images).",
    does_not_mean="It does not say that nothing is learnt: blocks may learn from credit that is not aligned. A large z "
    "says that alignment is there, not that it is large or useful: see ρ, nudging and D3.",
    do="Report Γ beside its null, with the number of draws. If z is below the limit, claim no alignment. If z is below "
    "-3, credit points away from the gradient: look for a wrong sign.",
)
def content(evidence: Evidence) -> Measurement | Missing:
    """Distance of the deep alignment from chance, in standard deviations of chance.

    z = (Γ - mean)/std over 20 draws (ddof 1), Γ the mean over layers l >= 1 that are not exact, on the same images:
    fresh feedback from its own distribution, or permuted labels for a rule without feedback
    """
    credit = evidence.credit
    if credit is None:
        return evidence.credit_missing
    null = credit.null
    if null is None or not null.draws:
        return Missing(Reason.NOT_GIVEN, "no null was drawn")
    if len(null.own) < 2:
        return Missing(Reason.NOT_APPLICABLE, "a stream without blocks has no deep layers")
    draws = [deep_mean(draw, credit.exact) for draw in null.draws]
    own = deep_mean(null.own, credit.exact)
    z = standing(own, draws)
    per_layer = tuple(standing(g, [draw[layer] for draw in null.draws]) for layer, g in enumerate(null.own))
    note = f"deep Γ {own:.3g} against {mean(draws):.2g} ± {spread(draws):.2g} by {null.kind}, {len(draws)} draws"
    if z < -FLOOR:
        note += ": anti-aligned"
    measured = Measurement(z, per_layer=per_layer, note=note)
    return Missing(Reason.GATED, GATED, measured) if evidence.collapsed else measured
