"""D9: does credit that is declared local carry the gradient through the weights above?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

TITLE = "Hidden backprop"
MEANS = (
    "The credit changes with weights above that no activation can see: it was carried through them, as backprop "
    "carries its gradient. The rule is not local as declared, and its alignment is at least partly backprop's."
)
DOES_NOT_MEAN = (
    "It does not say that the rule is wrong, only that it is not what it was declared to be. A pass does not make a "
    "rule plausible: it may use other things that a neuron could not know."
)
DO = (
    "Look for autograd through several blocks, or a state that was not detached. If the rule is meant to use the "
    "weights above, declare it: credit_local=False, or uses_weights_above = True."
)


def hidden_backprop(evidence: Evidence) -> Measurement | Missing:
    """Move of the credit over that of the gradient, under changes of weights that the forward pass cannot see.

    Δ = R(I - QQᵀ) for every block weight, Q spanning its own inputs, ‖Δ‖ = ‖W‖;
    max over l < L of r_l/q_l,   r_l, q_l = median relative move of a_l and of g_l
    """
    credit = evidence.credit
    if credit is None:
        return evidence.credit_missing
    found = credit.backprop
    if found is None:
        return Missing(Reason.NOT_GIVEN, "the weights were not changed")
    told = {layer: ratio for layer, ratio in enumerate(found.ratios) if ratio == ratio}
    if found.reason or not told:
        return Missing(Reason.NOT_POSSIBLE, found.reason or "no gradient moved")
    worst = max(told, key=lambda layer: told[layer])
    note = f"largest at layer {worst}, {found.images} images, in {found.precision}"
    untold = [str(layer) for layer in range(len(found.ratios)) if layer not in told]
    if untold:
        note += f"; layer {', '.join(untold)} not judged"
    measured = Measurement(told[worst], per_layer=(*found.ratios, float("nan")), note=note)  # a_L hears no block
    if credit.local:
        return measured
    return Missing(Reason.NOT_APPLICABLE, "declared to use the weights above: measured, not judged", measured)


diagnostic(
    "D9",
    title=TITLE,
    limit=Limit(
        at=1e-3,
        fires="above",
        because="local credit moves by 1e-14 of the gradient's move, a 1 % share of the gradient by 1e-2",
    ),
    means=MEANS,
    does_not_mean=DOES_NOT_MEAN,
    do=DO,
    warns=True,
)(hidden_backprop)
diagnostic(
    "D9",
    variant="single",
    title=f"{TITLE}, where float64 is impossible",
    limit=Limit(
        at=0.1, fires="above", because="in float32 the forward pass moves by rounding, and local credit with it"
    ),
    means=MEANS,
    does_not_mean=DOES_NOT_MEAN,
    do=DO,
    warns=True,
)(hidden_backprop)
