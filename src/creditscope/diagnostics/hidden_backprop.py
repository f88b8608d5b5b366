"""D9, hidden backprop: credit that follows weights which only backprop can see."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

TITLE = "Hidden backprop"
QUESTION = "does credit that is declared local carry the gradient through the weights above?"
FORMULA = (
    "The change of credit over that of the gradient, when weights change where the forward pass cannot see it.\n\n"
    "Δ = R(I - QQᵀ) for every block weight, Q spanning its own inputs, ‖Δ‖ = ‖W‖;\n"
    "max over l < L of r_l/q_l,   r_l, q_l = median relative change of a_l and of g_l"
)
MEANS = (
    "The credit changes with directions of the weights above that no activation can reveal: it was carried through "
    "these weights, as backprop carries its gradient. The rule is not local as declared, and its alignment is at least "
    "partly that of backprop."
)
DOES_NOT_MEAN = (
    "It does not say that the rule is wrong, only that it is not what it was declared to be. A pass does not make a "
    "rule biologically plausible: it may use other information that a neuron does not have."
)
DO = (
    "Look for autograd through several blocks, or for a state that was not detached. If the rule is meant to use the "
    "weights above, declare that: credit_local=False, or uses_weights_above = True."
)


def hidden_backprop(evidence: Evidence) -> Measurement | Missing:
    """The largest change of credit relative to that of the gradient, over the layers below the last."""
    credit = evidence.credit
    if isinstance(credit, Missing):
        return credit
    probe = credit.backprop
    if isinstance(probe, Missing):
        return probe
    judged = {layer: ratio for layer, ratio in enumerate(probe.ratios) if ratio == ratio}
    if not judged:
        return Missing(Reason.NOT_POSSIBLE, "no gradient changed: the weights above hardly affect it")
    worst = max(judged, key=lambda layer: judged[layer])
    note = f"largest at layer {worst}, {probe.images} images, in {probe.precision}"
    others = [str(layer) for layer in range(len(probe.ratios)) if layer not in judged]
    if others:
        note += f"; layer {', '.join(others)} not judged"
    measured = Measurement(judged[worst], per_layer=(*probe.ratios, float("nan")), note=note)  # no block is above a_L
    if credit.local:
        return measured
    return Missing(Reason.NOT_APPLICABLE, "declared to use the weights above: measured, not judged", measured)


diagnostic(
    "D9",
    title=TITLE,
    question=QUESTION,
    formula=FORMULA,
    limit=Limit(
        at=1e-3,
        fires="above",
        because="local credit changes by 1e-14 of the gradient's change, credit with 1 % of the gradient in it by 1e-2",
    ),
    means=MEANS,
    does_not_mean=DOES_NOT_MEAN,
    do=DO,
    column="",
    warns=True,
)(hidden_backprop)
diagnostic(
    "D9",
    variant="single",
    title=f"{TITLE}, in single precision",
    question=f"{QUESTION[:-1]}, on a model that cannot run in float64?",
    formula=FORMULA,
    limit=Limit(
        at=0.1, fires="above", because="in float32 rounding changes the forward pass, and local credit with it"
    ),
    means=MEANS,
    does_not_mean=DOES_NOT_MEAN,
    do=DO,
    column="",
    warns=True,
)(hidden_backprop)
