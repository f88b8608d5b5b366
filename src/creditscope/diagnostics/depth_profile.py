"""D10, depth profile: what the blocks add for a linear reader, without retraining."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditscope.diagnostics import diagnostic
from creditscope.statistics.intervals import discordant_interval
from creditscope.verdict import Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence, ReadoutProfile, Rival

POINTS = 100.0
LEAST = 2.0  # points
EMBEDDING = "embedding"  # the only rival where `initial=` was not given


@diagnostic(
    "D10",
    title="Depth profile",
    question="do the trained blocks make the classes easier to read off the stream?",
    formula="Accuracy that the blocks add for a linear read-out, in percentage points.\n\n"
    "R_l = test accuracy of a ridge read-out of h_l, fitted on training images;\n"
    "R_L - max(R_0, R_L of the same network with its blocks set back to `initial=`)",
    limit=Limit(
        at=LEAST,
        fires="below",
        unit="points",
        because="the limit of D3, which it follows: on the committed records the two agree and order the methods alike "
        "(page of findings)",
    ),
    means="The deepest state is no easier to read than the embedding, or than the deepest state of the same network "
    "with its blocks at their start: training the blocks has added nothing for a linear reader.",
    does_not_mean="It does not say that the method cannot use depth with another read-out: compare D3, which retrains. "
    "Without `initial=`, random blocks count as a gain of depth. A stream that narrows is not failed by its embedding, "
    "of which a linear reader has more numbers.",
    do="Claim no benefit from depth on the strength of this network alone: compare D3, which retrains with frozen "
    "blocks.",
    do_by_cause={
        EMBEDDING: "Pass `initial=`, so that the gain is over random blocks and not only over the embedding, and "
        "compare D3, which retrains with frozen blocks."
    },
    column="linear read-out",
)
def depth_profile(evidence: Evidence) -> Measurement | Missing:
    """The gain of the deepest read-out over the best of its two competitors, with an interval over test images."""
    profile = evidence.profile
    if isinstance(profile, Missing):
        return profile
    if len(profile.accuracies) < 2:
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks that could add anything")
    rival = profile.rival
    if profile.narrows and rival is profile.rivals[0] and _interval(profile, rival)[1] < LEAST:
        rival = profile.rivals[-1]  # the same network with its blocks set back, where that is known
        if rival is profile.rivals[0] or _interval(profile, rival)[1] >= LEAST:
            return Missing(
                Reason.NOT_APPLICABLE,
                f"the deepest read-out has {profile.numbers[-1]:,} numbers to read and that of the embedding "
                f"{profile.numbers[0]:,}: it may be less accurate for that reason alone",
            )
    return Measurement(
        POINTS * (rival.gained - rival.lost) / profile.images,
        per_layer=profile.accuracies,
        interval=_interval(profile, rival),
        cause="" if len(profile.rivals) > 1 else EMBEDDING,
        note=f"R_L {POINTS * profile.accuracies[-1]:.1f} % against {POINTS * rival.accuracy:.1f} % {rival.name}; rise "
        f"after the first block {POINTS * profile.late_rise:+.1f} points; {profile.training_images:,} training images",
    )


def _interval(profile: ReadoutProfile, rival: Rival) -> tuple[float, float]:
    """What the deepest read-out gains over a rival, in points, over the test images."""
    low, high = (POINTS * end for end in discordant_interval(rival.gained, rival.lost, profile.images))
    return low, high
