"""D6, alignment content: deep alignment against its null distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.statistics.layers import deep_mean, mean, spread, z_score
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

FLOOR = 3.0
GATED = "not interpretable: these states do not move the loss (D11) or get no credit (D13), or rounding decides (D7)"


@diagnostic(
    "D6",
    title="Alignment content",
    question="is there more alignment than chance would give?",
    formula="The distance of the deep alignment from chance, in standard deviations of chance.\n\n"
    "z = (Γ - mean)/std over 20 draws (ddof 1), Γ the mean over layers l >= 1 that are not exact, on the same images;\n"
    "a draw is the same credit with fresh feedback from its own distribution, from the rule or from redraw=",
    limit=Limit(
        at=FLOOR,
        fires="below",
        unit="absolute",
        because="three standard deviations of chance; DFA with a penalty reaches 13, chance alone 1",
    ),
    means="In the deep layers credit is no closer to the gradient than that of the same rule with fresh random "
    "feedback.",
    does_not_mean="It does not say that nothing is learnt: blocks may learn from credit that is not aligned. A large z "
    "says that there is alignment, not that it is strong or useful: see ρ, nudging and D3. Credit that depends on the "
    "labels need not be aligned: `label_dependence` is another number, and is not judged.",
    do="Report Γ beside its null, with the number of draws. Claim no alignment if z is below the limit. If z is below "
    "-3, credit points away from the gradient: look for a wrong sign.",
    column="z of Γ",
)
def content(evidence: Evidence) -> Measurement | Missing:
    """The z-score of the deep mean of Γ against its null draws."""
    credit = evidence.credit
    if isinstance(credit, Missing):
        return credit
    null = credit.null
    if isinstance(null, Missing):
        return null
    if len(null.own) < 2:
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks, so no deep layers")
    left_out = credit.exact_layers | evidence.untrusted
    if evidence.untrusted and left_out >= set(range(1, len(null.own))):
        return Missing(Reason.GATED, GATED)
    draws = [deep_mean(draw, left_out) for draw in null.draws]
    own = deep_mean(null.own, left_out)
    z = z_score(own, draws)
    per_layer = tuple(z_score(g, [draw[layer] for draw in null.draws]) for layer, g in enumerate(null.own))
    chance = f"{mean(draws):.2g} ± {spread(draws):.2g} under fresh feedback ({len(draws)} draws)"
    note = f"deep Γ {own:.3g} against {chance}" + ("; anti-aligned" if z < -FLOOR else "")
    return Measurement(z, per_layer=per_layer, note=note)
