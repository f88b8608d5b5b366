"""D0: is every number of the network finite?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence


@diagnostic(
    "D0",
    title="Finite numbers",
    limit=Limit(at=0, fires="above", unit="absolute", because="one NaN is enough to make every other number void"),
    means="States, gradients, logits or weights hold NaN or infinity: training has diverged, or a number overflowed.",
    does_not_mean="It does not say when it happened, nor that finite runs of the same method are sound.",
    do="Train again with a smaller step, in higher precision or with a bounded stream; report the run as diverged.",
)
def finite(evidence: Evidence) -> Measurement | Missing:
    """How many numbers are not finite.

    count of x with x = NaN or |x| = ∞, over states, gradients, logits (all images) and weights.
    """
    if evidence.non_finite is None:
        return Missing(Reason.NOT_GIVEN, "non-finite numbers were not counted")
    where = {name: count for name, count in evidence.non_finite.items() if count}
    note = ", ".join(f"{count:,} in {name}" for name, count in where.items())
    return Measurement(float(sum(where.values())), note=note)
