"""From numbers to a judgement: statuses, failure modes and profiles.  Knows no tensor and fails closed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal

from creditscope.errors import UnknownName
from creditscope.registry import unknown


class Status(StrEnum):
    """What a diagnostic found; only PASS rules a failure mode out."""

    PASS = "pass"
    FIRES = "fires"
    UNDECIDED = "undecided"  # its interval straddles the limit
    UNDEFINED = "undefined"  # NaN, 0/0
    SKIPPED = "skipped"  # the evidence is missing

    @property
    def fired(self) -> bool | None:
        """True where it fires, False where it passes, None where it says neither."""
        return {Status.FIRES: True, Status.PASS: False}.get(self)


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
    GATED = "gated"  # measured, but the reference gradient has collapsed


Axis = Literal["state", "block"]


@dataclass(frozen=True, slots=True)
class Measurement:
    """A number, the numbers that it summarises, and its uncertainty.

    axis   what `per_layer` runs over: the states h_0..h_L (L+1 numbers) or the blocks between them (L numbers)
    cause  one word that a failure mode may ask for
    """

    value: float
    per_layer: tuple[float, ...] = ()
    interval: tuple[float, float] | None = None  # 95 %, two-sided
    cause: str = ""
    note: str = ""
    axis: Axis = "state"
    per_seed: tuple[float, ...] = ()


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
    def origin(self) -> str:
        """Why the limit has this value, in words."""
        return (
            self.because if self.calibrated is None else f"set by the user; the calibrated limit is {self.calibrated:g}"
        )

    def past(self, value: float) -> bool:
        """Whether one number lies on the firing side."""
        return value > self.at if self.fires == "above" else value < self.at

    def judge(self, measurement: Measurement) -> Status:
        """Compare; a value that is not a number never passes, an interval must lie on one side."""
        if not math.isfinite(measurement.value):
            return Status.UNDEFINED
        ends = measurement.interval or (measurement.value, measurement.value)
        if not all(math.isfinite(end) for end in ends):
            return Status.UNDEFINED
        sides = {self.past(end) for end in ends}
        if len(sides) == 2:
            return Status.UNDECIDED
        return Status.FIRES if sides == {True} else Status.PASS

    def margin(self, value: float) -> float:
        """Distance from the limit, positive on the passing side: decades (log₁₀ of the ratio), points or units."""
        if self.unit == "decades":
            if value <= 0 or self.at <= 0:
                return -math.inf if self.past(value) else math.inf
            ahead = math.log10(self.at) - math.log10(value)
        else:
            ahead = self.at - value
        return ahead if self.fires == "above" else -ahead


@dataclass(frozen=True, slots=True)
class Finding:
    """One diagnostic's answer, with everything a reader needs to act on it.

    variant  the form of the diagnostic that measured it: "" for the plain one, "april" for D1:april
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
    warns: bool = False  # fires as a warning beside the verdict
    variant: str = ""
    reason: Reason | None = None

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
    def margin(self) -> float | None:
        """Distance to the limit, positive on the passing side."""
        if self.measurement is None or self.status is Status.SKIPPED or not math.isfinite(self.measurement.value):
            return None
        return self.limit.margin(self.measurement.value)


def reference_collapsed(findings: Mapping[str, Finding]) -> bool:
    """Whether D2 says that the reference gradient has collapsed, so that no cosine with it can be interpreted."""
    reference = findings.get("D2")
    return reference is not None and reference.status is Status.FIRES and reference.cause == "collapsed"


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to fail silently: shown when all its diagnostics fire, ruled out when any of them passes.

    `requires` maps a code to the cause that counts ("" = any). A diagnostic that fires for another cause counts as
    passed: a reference that is small because the network fits its data has not collapsed.
    """

    name: str
    means: str
    requires: Mapping[str, str]
    flag: str = ""

    def state(self, findings: Mapping[str, Finding]) -> Literal["shown", "ruled out", "open"]:
        """What the findings say about this mode."""
        answers = [self._answer(findings.get(code), cause) for code, cause in self.requires.items()]
        if all(answer is Status.FIRES for answer in answers):
            return "shown"
        return "ruled out" if Status.PASS in answers else "open"

    @staticmethod
    def _answer(finding: Finding | None, cause: str) -> Status:
        if finding is None:
            return Status.SKIPPED
        if finding.status is Status.FIRES and cause and finding.cause != cause:
            return Status.PASS if finding.cause else Status.UNDEFINED
        return finding.status


@dataclass(frozen=True, slots=True)
class Profile:
    """Which failure modes are judged, with which variants of the diagnostics, and in which words."""

    name: str
    title: str
    modes: tuple[Mode, ...]
    words: Literal["codes", "flags"]
    variants: Mapping[str, str] = field(default_factory=dict)

    @property
    def codes(self) -> tuple[str, ...]:
        """The diagnostics that can fail a network; every other one is advisory."""
        return tuple(sorted({code for mode in self.modes for code in mode.requires}))


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement: which failure modes are shown, ruled out, open."""

    text: str
    outcome: Literal["pass", "fail", "inconclusive"]
    shown: tuple[str, ...]
    ruled_out: tuple[str, ...]
    open: tuple[str, ...]
    why: str
    warnings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.text

    @property
    def exit_code(self) -> int:
        """0 pass, 1 fail, 3 inconclusive."""
        return {"pass": 0, "fail": 1, "inconclusive": 3}[self.outcome]


NON_FINITE = Mode("non-finite numbers", "The network holds numbers that are not finite.", {"D0": ""}, "non-finite")
_FOUR = (
    Mode("scale", "The residual stream explodes.", {"D1": ""}, "(a) scale"),
    Mode("reference", "The reference gradient lies below the floor.", {"D2": ""}, "(b) reference"),
    Mode("drift", "One direction dominates the reference gradients.", {"D4": ""}, "(c) drift"),
    Mode("depth", "The trained blocks are no better than frozen ones.", {"D3": ""}, "(d) depth"),
)
PROFILES: Mapping[str, Profile] = {
    "three": Profile(
        "three",
        "scale stability and reference validity together, or depth utility",
        (
            NON_FINITE,
            Mode(
                "measurement degeneracy",
                "The stream exploded and the reference gradient collapsed with it: cosines to it mean nothing.",
                {"D1": "", "D2": "collapsed"},
            ),
            Mode("unused depth", "The trained blocks are no better than frozen random ones.", {"D3": ""}),
        ),
        "codes",
    ),
    "four": Profile("four", "any of four flags is enough", (*_FOUR, NON_FINITE), "flags"),
    "april": Profile(
        "april",
        "as four, with the scale relative to layer 0",
        (*_FOUR, NON_FINITE),
        "flags",
        {"D1": "april"},
    ),
}


def profile(name: str) -> Profile:
    """The protocol profile of that name."""
    if name not in PROFILES:
        raise UnknownName(unknown("protocol", name, PROFILES))
    return PROFILES[name]


def judge(protocol: Profile, findings: Mapping[str, Finding]) -> Verdict:
    """From findings to the verdict: one shown mode fails, all ruled out passes, anything else stays open."""
    states = {mode.name: mode.state(findings) for mode in protocol.modes}
    shown, ruled_out, still_open = (
        tuple(mode for mode in protocol.modes if states[mode.name] == state) for state in ("shown", "ruled out", "open")
    )
    outcome: Literal["pass", "fail", "inconclusive"] = "fail" if shown else "inconclusive" if still_open else "pass"
    return Verdict(
        text=_wording(protocol, findings, shown, still_open),
        outcome=outcome,
        shown=tuple(mode.name for mode in shown),
        ruled_out=tuple(mode.name for mode in ruled_out),
        open=tuple(mode.name for mode in still_open),
        why=_why(findings, shown, still_open),
        warnings=tuple(
            f"{finding.code} {finding.title}: {finding.note or finding.means}"
            for finding in findings.values()
            if finding.warns and finding.status is Status.FIRES
        ),
    )


def _wording(
    protocol: Profile, findings: Mapping[str, Finding], shown: tuple[Mode, ...], still_open: tuple[Mode, ...]
) -> str:
    if protocol.words == "codes":
        word, modes = ("FAIL", shown) if shown else ("INCONCLUSIVE", still_open)
        codes = sorted({code for mode in modes for code in mode.requires})
        return f"{word}({'+'.join(codes)})" if codes else "PASS"
    if shown:
        return "needs walk-back: " + "; ".join(mode.flag for mode in shown)
    if still_open:
        return "incomplete: " + "; ".join(_not_known(mode, findings) for mode in still_open)
    return "trustworthy"


def _not_known(mode: Mode, findings: Mapping[str, Finding]) -> str:
    (code,) = mode.requires
    status = findings[code].status if code in findings else Status.SKIPPED
    letter = mode.flag.split(" ")[0]
    return f"{letter} {'not measured' if status is Status.SKIPPED else status.value}"


def _why(findings: Mapping[str, Finding], shown: tuple[Mode, ...], still_open: tuple[Mode, ...]) -> str:
    if shown:
        return " ".join(mode.means for mode in shown)
    if still_open:
        reasons = (
            f"{code} is {findings[code].status}: {findings[code].note}" if code in findings else f"{code} is missing"
            for mode in still_open
            for code in mode.requires
            if code not in findings or findings[code].status not in (Status.PASS, Status.FIRES)
        )
        return " ".join(reason.rstrip(".") + "." for reason in dict.fromkeys(reasons))
    return "Every failure mode of this protocol is ruled out."
