"""D13, reach: for how many images a state gets any credit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D13",
    title="Reach of credit",
    question="does credit reach every state?",
    formula="The smallest share of images, over the states, whose credit is not exactly zero.\n\n"
    "min over l of  #(a_l ≠ 0 and g_l ≠ 0)/#(g_l ≠ 0);  where Γ compares positions one by one, of positions",
    limit=Limit(
        at=0.5,
        fires="below",
        unit="absolute",
        because="below one half most images teach this state nothing, and Γ there is the mean over a minority; at the "
        "lowest of 31 states plain predictive coding has 0 to 0.0008, with multipliers 1",
    ),
    means="At one of the states most images have a gradient and no credit at all. What lies below learns from the few "
    "others, and Γ there describes these few alone.",
    does_not_mean="It says nothing about credit that is tiny but not zero: optimisers that divide by its size, such as "
    "Adam, can learn from it. A state without credit is not a state without gradient: see D11.",
    do="Look at the layer where credit ends. A pull that is smaller than the rounding of the states it is added to is "
    "the usual reason of an inference phase: run it in float64, or let it relax the differences from the forward pass. "
    "Report no alignment at that layer.",
    column="reach",
)
def reach(evidence: Evidence) -> Measurement | Missing:
    """The smallest share of the images with a gradient that have credit too."""
    credit = evidence.credit
    if isinstance(credit, Missing):
        return credit
    shares = credit.alignment.reach
    asked = [layer for layer, due in enumerate(credit.alignment.due) if due]
    if not asked:
        return Measurement(math.nan, per_layer=shares, note="no image has a gradient at any state")
    lowest = min(asked, key=lambda layer: (shares[layer] == shares[layer], shares[layer]))  # NaN first
    if shares[lowest] == 1:
        return Measurement(1.0, note="every image with a gradient has credit at every state")
    given = credit.alignment.samples - credit.alignment.undefined[lowest]
    return Measurement(
        shares[lowest],
        per_layer=shares,
        note=f"lowest at h_{lowest}: credit for {given:,} of {credit.alignment.due[lowest]:,} with a gradient",
    )
