"""D9, hidden backprop: credit that depends on the weights above."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.credit import CreditEvidence, HiddenBackprop
    from creditscope.evidence.records import Evidence

TITLE = "Hidden backprop"
QUESTION = "does credit that is declared local depend on the weights above?"
FORMULA = (
    "The change of credit over that of the gradient, when weights change where the forward pass cannot see it.\n\n"
    "Δ = R(I - QQᵀ) for every block weight, Q spanning its own inputs, ‖Δ‖ = ‖W‖;\n"
    "max over l < L of r_l/q_l,   r_l, q_l = median relative change of a_l and of g_l"
)
MEANS = (
    "The credit changes when the weights above change in directions that the forward pass of these images does not "
    "use. It depends on these weights: by autograd through them, through a transpose of them, or by further forward "
    "passes. It is not local as declared, and its alignment may be that of backprop."
)
DOES_NOT_MEAN = (
    "It does not say that the rule is wrong, only that it is not what it was declared to be. A pass does not make a "
    "rule biologically plausible: it may use other information that a neuron does not have."
)
DO = (
    "Look for autograd through several blocks, or for a state that was not detached. If the rule is meant to use the "
    'weights above, declare that: credit_local=False, or uses_weights_above = True; credit_local="forward" if it only '
    "probes them by forward passes, as node perturbation and PEPITA do. Let the credit read the audited network "
    "itself, not a copy of its weights."
)
ALMOST_ONE = 0.999
OTHER_NETWORK, GRADIENT = "other network", "gradient"  # causes that warn beside the verdict
UNREAD = (
    "the credit does not change with the weights of this network: it comes from a copy of them, or from the inputs and "
    "labels alone, and whether it depends on the weights above cannot be measured"
)
DECLARED: dict[bool | str, str] = {
    False: "declared to use the weights above: measured, not judged",
    "forward": "declared to probe the weights above by forward passes: measured, not judged",
}


def hidden_backprop(evidence: Evidence) -> Measurement | Missing:
    """The largest change of credit relative to that of the gradient, over the layers below the last."""
    credit = evidence.credit
    if isinstance(credit, Missing):
        return credit
    probe, equal = credit.backprop, _equal_to_the_gradient(credit)
    if not isinstance(probe, Missing) and not probe.reads_network:
        text = "; ".join(part for part in (UNREAD, equal) if part)
        return Missing(Reason.NOT_POSSIBLE, text, Measurement(0.0, cause=OTHER_NETWORK))
    answer = probe if isinstance(probe, Missing) else _largest(probe)
    if credit.local is not True:
        declared = DECLARED[credit.local]
        return answer if isinstance(answer, Missing) else Missing(Reason.NOT_APPLICABLE, declared, answer)
    if not equal:
        return answer
    if isinstance(answer, Missing):
        return replace(answer, text=f"{answer.text}; {equal}", measured=Measurement(math.nan, cause=GRADIENT))
    return replace(answer, cause=GRADIENT, note=f"{answer.note}; {equal}")


def _largest(probe: HiddenBackprop) -> Measurement | Missing:
    judged = {layer: ratio for layer, ratio in enumerate(probe.ratios) if ratio == ratio}
    if not judged:
        return Missing(Reason.NOT_POSSIBLE, "no gradient changed: the weights above hardly affect it")
    worst = max(judged, key=lambda layer: judged[layer])
    note = (
        f"credit changes with the weights above by {judged[worst]:.2g} of the gradient's change, most at layer "
        f"{worst}; {probe.images} images, in {probe.precision}"
    )
    others = [str(layer) for layer in range(len(probe.ratios)) if layer not in judged]
    if others:
        note += f"; layer {', '.join(others)} not judged"
    return Measurement(judged[worst], per_layer=(*probe.ratios, math.nan), note=note)  # no block is above a_L


def _equal_to_the_gradient(credit: CreditEvidence) -> str:
    """The layers below the last at which credit that is not exact by construction nearly equals the gradient."""
    gammas = list(enumerate(credit.alignment.exact))[:-1]  # at the last layer only the read-out is above
    layers = [str(layer) for layer, gamma in gammas if gamma > ALMOST_ONE and layer not in credit.exact_layers]
    return f"Γ is above {ALMOST_ONE} at layer {', '.join(layers)}, as if the credit were the gradient" if layers else ""


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
