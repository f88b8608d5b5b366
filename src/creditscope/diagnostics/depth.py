"""D3, depth utility: the accuracy gained by training the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, cast

from creditscope.diagnostics import diagnostic, diagnostics, examine, registered_name
from creditscope.provenance import Source
from creditscope.statistics.intervals import Interval, newcombe_interval, paired_interval, t_interval, welch_interval
from creditscope.statistics.margin import Margin, margin_of_accuracies, margin_of_answers
from creditscope.verdict import Finding, Limit, Measurement, Missing, Reason

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from creditscope.evidence.records import Evidence

POINTS = 100.0
UNKNOWN_POINTS = 10.0  # either side of a margin of two typed numbers, of which nothing else is known
LIMIT = Limit(
    at=2.0,
    fires="below",
    unit="points",
    because="the seeds of most methods have a standard deviation below 2 points, and the blocks of a residual MLP "
    "gain about 20 or more by backprop",
)
MEANS = (
    "The same network does as well with its blocks frozen at random initialisation and only the embedding and "
    "read-out trained: the method has taught the blocks nothing that shows in the accuracy."
)
DOES_NOT_MEAN = (
    "It does not say that credit is wrong everywhere, or that the embedding learns nothing. A margin "
    "above the limit does not say that depth is used as well as backprop uses it."
)
DO = (
    "Report the accuracy of the frozen control beside the method's, over several seeds, and claim a benefit from "
    "depth only where the method beats its frozen control."
)
DO_WHEN_UNDECIDED = (
    "Train more seeds of the method and of its frozen control, or test on more images: `creditscope power` says how "
    "many would decide it. Until then claim no benefit from depth."
)
DO_WHEN_SKIPPED = {
    Reason.NO_CONTROL: "Train a control with frozen blocks and the same data, recipe and seeds (`creditscope "
    "train --controls frozen`), and give its accuracy (`--control-accuracy`) unless the audit finds it by itself.",
    Reason.NOT_GIVEN: "Give the accuracy of the network (`--accuracy`), or labels with which it can be measured.",
    Reason.NOT_APPLICABLE: "There is no depth between the first state and the read-out: claim nothing about it.",
}


@diagnostic(
    "D3",
    title="Depth utility",
    question="do the trained blocks do more than frozen random ones?",
    formula="The accuracy gained by training the blocks, in percentage points.\n\n"
    "mean accuracy - mean accuracy with frozen blocks, with a 95 % two-sided interval over seeds and test images:\n"
    "half-width² = z² V + (t_ν² - z²) S²/V, at least t_ν² S; V = S + I, S the seeds' variance (Welch; paired where\n"
    "named seeds correlate), I the images'; a lone number is given the other side's spread, a single seed on both\n"
    "sides 3 points",
    limit=LIMIT,
    means=MEANS,
    does_not_mean=DOES_NOT_MEAN,
    do=DO,
    do_when_undecided=DO_WHEN_UNDECIDED,
    do_when_skipped=DO_WHEN_SKIPPED,
)
def depth_utility(evidence: Evidence) -> Measurement | Missing:
    """The margin over the frozen control in points, with an interval over seeds and images."""
    drift = evidence.weight_drift
    if drift is not None and len(drift) > 2 and not any(drift[1:-1]):
        return Measurement(0.0, note="the blocks are at their initial values: this network is its own frozen control")
    arms = _arms(evidence)
    if isinstance(arms, Missing):
        return arms
    trained, control = arms
    margin = _margin(trained, control, evidence)
    value = _points(margin.value)
    if margin.interval is None:
        interval = (value - UNKNOWN_POINTS, value + UNKNOWN_POINTS)
        note = f"{margin.how}; undecided within {UNKNOWN_POINTS:g} points of the limit"
    else:
        interval = (_points(margin.interval[0]), _points(margin.interval[1]))
        note = margin.how
    note = "; ".join([note, *_typed_in(evidence)])
    return Measurement(value, per_seed=_per_seed(trained, control, evidence), interval=interval, note=note)


def _margin(trained: tuple[float, ...], control: tuple[float, ...], evidence: Evidence) -> Margin:
    """Image by image where the answers of both sides to the same images are known, else from the accuracies."""
    if evidence.answers is not None and evidence.control_answers is not None:
        return margin_of_answers(evidence.answers, evidence.control_answers, matched=evidence.named_seeds)
    return margin_of_accuracies(trained, control, images=evidence.accuracy_images, matched=evidence.named_seeds)


def _typed_in(evidence: Evidence) -> list[str]:
    """Which of the two numbers nobody measured here."""
    sources = {"accuracy": evidence.accuracy_source, "control accuracy": evidence.control_source}
    names = [name for name, source in sources.items() if source is Source.TYPED]
    return [f"{' and '.join(names)} typed in"] if names else []


@diagnostic(
    "D3",
    variant="published",
    title="Depth utility",
    question="do the trained blocks do more than frozen random ones?",
    formula="The accuracy gained by training the blocks, in percentage points, by the rules of protocol `three`.\n\n"
    "mean accuracy - mean accuracy with frozen blocks, with a 95 % two-sided interval: paired t over matched seeds,\n"
    "Welch's t over unmatched ones, one-sample t against a single control; for a single seed Newcombe's interval over\n"
    "the test images",
    limit=LIMIT,
    means=MEANS,
    does_not_mean=DOES_NOT_MEAN,
    do=DO,
    do_when_undecided=DO_WHEN_UNDECIDED,
    do_when_skipped=DO_WHEN_SKIPPED,
)
def published_depth_utility(evidence: Evidence) -> Measurement | Missing:
    """The margin over the frozen control in points, with the interval that the number of seeds allows."""
    arms = _arms(evidence)
    if isinstance(arms, Missing):
        return arms
    trained, control = arms
    interval, note = _interval(trained, control, evidence)
    if interval is not None:
        interval = (_points(interval[0]), _points(interval[1]))
    value = _points(fmean(trained) - fmean(control))
    return Measurement(value, per_seed=_per_seed(trained, control, evidence), interval=interval, note=note)


def _arms(evidence: Evidence) -> tuple[tuple[float, ...], tuple[float, ...]] | Missing:
    """The accuracies on both sides, or why one is missing."""
    trained, control = evidence.accuracy, evidence.control_accuracy
    if control is None and len(evidence.hidden_norms) == 1:
        return Missing(Reason.NOT_APPLICABLE, "the network has no blocks that could be frozen")
    if control is None:
        return Missing(Reason.NO_CONTROL, "no frozen-block control was supplied")
    if trained is None:
        return Missing(Reason.NOT_GIVEN, "no accuracy was given, and these labels do not allow one to be measured")
    return trained, control


def _per_seed(trained: tuple[float, ...], control: tuple[float, ...], evidence: Evidence) -> tuple[float, ...]:
    """The margin of every seed, where both sides have the same seeds."""
    if len(trained) != len(control) or not evidence.matched_seeds:
        return ()
    return tuple(_points(a - b) for a, b in zip(trained, control, strict=True))


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
    hidden_norms: tuple[None, ...] = (None, None)  # one for each state
    matched_seeds: bool = True
    named_seeds: bool = True
    weight_drift: None = None
    accuracy_source: Source | None = None
    control_source: Source | None = None
    answers: NDArray[numpy.bool_] | None = None
    control_answers: NDArray[numpy.bool_] | None = None


def from_accuracies(
    trained: tuple[float, ...] | None,
    control: tuple[float, ...] | None,
    images: int | None,
    at: float | None = None,
    *,
    variant: str = "",
    blocks: int = 1,
) -> Finding:
    """D3 from accuracies alone, seeds named and matched; `at` replaces the limit, `blocks` is the network's depth."""
    evidence = cast("Evidence", _Accuracies(trained, control, images, hidden_norms=(None,) * (blocks + 1)))
    return examine(diagnostics[registered_name("D3", variant)], evidence, at)


def from_answers(
    trained: NDArray[numpy.bool_],
    control: NDArray[numpy.bool_],
    at: float | None = None,
    *,
    variant: str = "",
) -> Finding:
    """D3 from the right answers of both sides to the same images, (seeds, images), in the same order of seeds."""
    evidence = _Accuracies(
        tuple(trained.mean(1).tolist()),
        tuple(control.mean(1).tolist()),
        trained.shape[1],
        accuracy_source=Source.MEASURED,
        control_source=Source.MEASURED,
        answers=trained,
        control_answers=control,
    )
    return examine(diagnostics[registered_name("D3", variant)], cast("Evidence", evidence), at)
