"""D3, depth utility: the accuracy gained by training the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, cast

from creditscope.diagnostics import diagnostic, diagnostics, examine
from creditscope.statistics.intervals import Interval, newcombe_interval, paired_interval, t_interval, welch_interval
from creditscope.verdict import Finding, Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

POINTS = 100.0


@diagnostic(
    "D3",
    title="Depth utility",
    question="do the trained blocks do more than frozen random ones?",
    formula="The accuracy gained by training the blocks, in percentage points.\n\n"
    "mean accuracy - mean accuracy with frozen blocks, with a 95 % two-sided interval: paired t over matched seeds,\n"
    "Welch's t over unmatched ones, one-sample t against a single control; for a single seed Newcombe's interval over\n"
    "the test images",
    limit=Limit(
        at=2.0,
        fires="below",
        unit="points",
        because="seeds of one method differ by less than 2 points, and blocks trained by backprop gain 20 or more",
    ),
    means="The same network does as well with its blocks frozen at random initialisation and only the embedding and "
    "read-out trained: the method has taught the blocks nothing that shows in the accuracy.",
    does_not_mean="It does not say that credit is wrong everywhere, or that the embedding learns nothing. A margin "
    "above the limit does not say that depth is used as well as backprop uses it.",
    do="Report the accuracy of the frozen control beside the method's, over several seeds, and claim a benefit from "
    "depth only where the method beats its frozen control. If there is no control, train one with the same data, "
    "recipe and seeds and with frozen blocks (`creditscope train --controls frozen`).",
)
def depth_utility(evidence: Evidence) -> Measurement | Missing:
    """The margin over the frozen control in points, with the interval that the number of seeds allows."""
    trained, control = evidence.accuracy, evidence.control_accuracy
    if control is None:
        return Missing(Reason.NO_CONTROL, "no frozen-block control was supplied")
    if trained is None:
        return Missing(Reason.NOT_GIVEN, "no accuracy was given, and these labels do not allow one to be measured")
    interval, note = _interval(trained, control, evidence)
    margin = _points(fmean(trained) - fmean(control))
    if interval is not None:
        interval = (_points(interval[0]), _points(interval[1]))
    per_seed: tuple[float, ...] = ()
    if len(trained) == len(control) and evidence.matched_seeds:
        per_seed = tuple(_points(a - b) for a, b in zip(trained, control, strict=True))
    return Measurement(margin, per_seed=per_seed, interval=interval, note=note)


def _points(share: float) -> float:
    """Percentage points, rounded so that 57 % - 55 % is 2 and not 1.9999999999999907."""
    return round(POINTS * share, 9)


def _interval(
    trained: tuple[float, ...], control: tuple[float, ...], evidence: Evidence
) -> tuple[Interval | None, str]:
    """The interval of trained - control that the numbers of seeds allow, and its name."""
    n, m = len(trained), len(control)
    if n >= 2 and n == m and evidence.matched_seeds:
        return paired_interval(trained, control), f"paired t-interval over {n} seeds"
    if n >= 2 and m >= 2:
        return welch_interval(trained, control), f"Welch's t-interval over {n} and {m} seeds, not matched"
    if n >= 2:
        note = f"t-interval over {n} seeds; the control is taken as exact"
        return t_interval([a - control[0] for a in trained]), note
    if m >= 2:
        note = f"t-interval over {m} controls; the accuracy is taken as exact"
        return t_interval([trained[0] - c for c in control]), note
    images = evidence.accuracy_images
    if images is None:
        return None, "single seed: seed-to-seed variation was not measured"
    note = f"single seed: the interval reflects the {images:,} test images only, not seed-to-seed variation"
    return newcombe_interval(trained[0], images, control[0], images), note


@dataclass(frozen=True, slots=True)
class _Accuracies:
    """The part of the evidence that D3 reads."""

    accuracy: tuple[float, ...] | None
    control_accuracy: tuple[float, ...] | None
    accuracy_images: int | None = None
    matched_seeds: bool = True


def from_accuracies(
    trained: tuple[float, ...], control: tuple[float, ...] | None, images: int | None, at: float | None = None
) -> Finding:
    """D3 from accuracies alone, with matched seeds; `at` replaces the limit."""
    evidence = cast("Evidence", _Accuracies(trained, control, images))
    return examine(diagnostics["D3"], evidence, at)
