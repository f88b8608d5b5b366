"""D0, finite numbers: counts NaN and infinity."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D0",
    title="Finite numbers",
    question="is every number of the network finite?",
    formula="The number of values that are not finite.\n\n"
    "count of x with x = NaN or |x| = ∞, over states, gradients, logits (all images) and weights; of buffers NaN only",
    limit=Limit(at=0.0, fires="above", unit="absolute", because="a single NaN invalidates every other number"),
    means="States, gradients, logits or weights contain NaN or infinity: training diverged, or a number overflowed.",
    does_not_mean="It does not say when this happened, or that finite runs of the same method are sound.",
    do="Train again with a smaller step, in higher precision or with a bounded stream; report this run as diverged.",
)
def finite(evidence: Evidence) -> Measurement | Missing:
    """The number of non-finite values, with their places in the note."""
    if evidence.non_finite is None:
        return Missing(Reason.NOT_GIVEN, "non-finite numbers were not counted")
    counts = {place: count for place, count in evidence.non_finite.items() if count}
    note = ", ".join(f"{count:,} in {place}" for place, count in counts.items())
    return Measurement(float(sum(counts.values())), note=note)
