"""Findings and verdicts: measurements, limits, statuses and the reasons why something is missing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fractions import Fraction
from typing import Literal


class Status(StrEnum):
    """The outcome of a diagnostic; only PASS rules a failure mode out."""

    PASS = "pass"
    FIRES = "fires"
    UNDECIDED = "undecided"  # its interval straddles the limit
    UNDEFINED = "undefined"  # NaN, 0/0
    SKIPPED = "skipped"  # the evidence is missing
    MEASURED = "measured"  # this protocol sets no limit

    @property
    def fired(self) -> bool | None:
        """True where it fires, False where it passes, None where it says neither."""
        return self is Status.FIRES if self in (Status.FIRES, Status.PASS) else None


class Reason(StrEnum):
    """Why a diagnostic was skipped."""

    NO_CREDIT = "no credit"  # the audit was given no credit signal
    NO_CONTROL = "no control"  # no accuracy of a frozen control was given
    NOT_GIVEN = "not given"  # some other input is missing
    NOT_AVAILABLE = "not available"  # the credit cannot be recomputed: feedback or auxiliary networks are lost
    NOT_APPLICABLE = "not applicable"  # the question does not arise for this network or rule
    TOO_FEW = "too few"  # too few layers, batches or logged states
    NOT_POSSIBLE = "not possible"  # it was tried, and the measurement failed
    INDECISIVE = "indecisive"  # only a bound or a hint is known, and it does not decide
    GATED = "gated"  # the number would not mean what it says


Axis = Literal["state", "block"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number, the numbers that it summarises, and its uncertainty.

    axis   what `per_layer` runs over: the states h_0..h_L (L+1 numbers) or the blocks between them (L numbers)
    cause  one word that a failure mode may ask for
    per_tensor  by parameter name, for numbers about weights
    """

    value: float
    per_layer: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None  # 95 %, two-sided
    cause: str = ""
    note: str = ""
    axis: Axis = "state"
    per_seed: tuple[float, ...] = ()
    per_tensor: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Missing:
    """The answer of a diagnostic without its evidence, or with a number that must not be judged."""

    reason: Reason
    text: str
    measured: Measurement | None = None


NO_CREDIT = Missing(Reason.NO_CREDIT, "no credit was given")


@dataclass(frozen=True, slots=True)
class Limit:
    """The value at which a diagnostic fires, and the reason for choosing it.

    calibrated  the limit that `because` explains, where the user has set another one; else None
    """

    at: float
    fires: Literal["above", "below"]
    because: str
    unit: Literal["decades", "points", "absolute"] = "decades"
    calibrated: float | None = None

    def moved(self, at: float) -> Limit:
        """The same limit at the user's own value; it remembers the calibrated one."""
        calibrated = self.at if self.calibrated is None else self.calibrated
        return replace(self, at=at, calibrated=None if at == calibrated else calibrated)

    @property
    def text(self) -> str:
        """The value in figures; a fraction such as 1/3, which has no short decimals, as a fraction."""
        return _figures(self.at)

    @property
    def origin(self) -> str:
        """Why the limit has this value, in words."""
        return (
            self.because
            if self.calibrated is None
            else f"set by the user; the calibrated limit is {_figures(self.calibrated)}"
        )

    def past(self, value: float) -> bool:
        """Whether one number lies on the firing side."""
        return value > self.at if self.fires == "above" else value < self.at

    def judge(self, measurement: Measurement) -> Status:
        """The status of a measurement: NaN never passes, on neither side, and an interval must not hold the limit."""
        if not math.isfinite(measurement.value) or math.isnan(self.at):
            return Status.UNDEFINED
        low, high = measurement.interval or (measurement.value, measurement.value)
        if not (math.isfinite(low) and math.isfinite(high)):
            return Status.UNDEFINED
        fires = self.past(low)
        if fires != self.past(high):
            return Status.UNDECIDED
        return Status.FIRES if fires else Status.PASS

    def margin(self, value: float) -> float:
        """Distance from the limit, positive on the passing side: decades (log₁₀ of the ratio), points or units."""
        if self.unit == "decades":
            if value <= 0 or self.at <= 0:
                return -math.inf if self.past(value) else math.inf
            ahead = math.log10(self.at) - math.log10(value)
        else:
            ahead = self.at - value
        return ahead if self.fires == "above" else -ahead


def _figures(at: float) -> str:
    if not math.isfinite(at):
        return f"{at:g}"
    fraction = Fraction(at).limit_denominator(9)
    return str(fraction) if float(f"{at:g}") != at and float(fraction) == at else f"{at:g}"


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnostic's answer, with everything a reader needs to act on it.

    variant  the form of the diagnostic that measured it: "" for the plain one, "april" for D1:april
    column   heading of its numbers in a table per layer; empty if they are not shown there
    reason   why it was skipped; None if it was not
    """

    code: str
    title: str
    status: Status
    measurement: Measurement | None
    limit: Limit
    note: str
    remedy: str
    means: str = ""
    does_not_mean: str = ""
    warns: bool = False  # a warning beside the verdict where it fires, or has a cause
    variant: str = ""
    reason: Reason | None = None
    column: str = ""

    @property
    def value(self) -> float | None:
        """The number, None if it was not measured."""
        return None if self.measurement is None else self.measurement.value

    @property
    def per_layer(self) -> tuple[float, ...]:
        """The number at every state or block."""
        return () if self.measurement is None else self.measurement.per_layer

    @property
    def per_seed(self) -> tuple[float, ...]:
        """The number of every seed, where there are several."""
        return () if self.measurement is None else self.measurement.per_seed

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval, where one was computed."""
        return None if self.measurement is None else self.measurement.interval

    @property
    def cause(self) -> str:
        """The diagnosed cause in one word, empty if there is none."""
        return "" if self.measurement is None else self.measurement.cause

    @property
    def limits_layers(self) -> bool:
        """Whether the limit is one for the numbers per layer too; points are a difference between two of them."""
        return self.limit.unit != "points"

    @property
    def margin(self) -> float | None:
        """Distance to the limit, positive on the passing side."""
        unjudged = self.status in (Status.SKIPPED, Status.MEASURED)
        if self.measurement is None or unjudged or not math.isfinite(self.measurement.value):
            return None
        return self.limit.margin(self.measurement.value)


def untrusted_states(findings: Mapping[str, Finding]) -> frozenset[int]:
    """The states at which no cosine can be interpreted: D11 or D13 fires there, or D7 does, which is about them all."""
    firing = {code: found for code, found in findings.items() if found.status is Status.FIRES}
    if "D7" in firing:
        return frozenset(range(len(firing["D7"].per_layer)))
    by_state = [firing[code] for code in ("D11", "D13") if code in firing]
    return frozenset(
        layer for found in by_state for layer, value in enumerate(found.per_layer) if found.limit.past(value)
    )


# Measures that a collapsed reference makes invalid: clamped cosines and absolute steps.
CLAMPED = ("gamma_clamped", "gamma_clamped_mean", "rho_absolute", "rho_absolute_bp", "nudge_absolute")


def reference_collapsed(findings: Mapping[str, Finding]) -> bool:
    """Whether D2 says that the reference has collapsed: clamped cosines and absolute steps are then invalid."""
    reference = findings.get("D2")
    return reference is not None and reference.status is Status.FIRES and reference.cause == "collapsed"


Outcome = Literal["pass", "fail", "inconclusive", "control"]
DIVERGED = "INCONCLUSIVE(diverged)"  # the verdict of a run that stopped early and would pass by its findings


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement: which failure modes are shown, ruled out, open; a control run is not judged."""

    text: str
    outcome: Outcome
    shown: tuple[str, ...]
    ruled_out: tuple[str, ...]
    open: tuple[str, ...]
    why: str
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def exit_code(self) -> int:
        """0 pass or control, 1 fail, 3 inconclusive."""
        return {"pass": 0, "control": 0, "fail": 1, "inconclusive": 3}[self.outcome]
