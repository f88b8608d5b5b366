"""Protocols: the failure modes that an audit judges, and the verdict that follows from its findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from creditscope.errors import UnknownName
from creditscope.registry import natural_key, unknown
from creditscope.verdict import Finding, Status, Verdict


@dataclass(frozen=True, slots=True)
class Mode:
    """A failure mode: shown when all its diagnostics fire, ruled out when any of them passes.

    `requires` maps a code to the cause that counts ("" = any). A diagnostic that fires for another cause counts as
    passed: a reference that is small because the network fits its data has not collapsed. `flag` and its `letter` are
    the names of the mode in protocols that judge by flags.
    """

    name: str
    means: str
    requires: Mapping[str, str]
    flag: str = ""
    letter: str = ""

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
class AuditProtocol:
    """The failure modes that are judged, the variants of the diagnostics that judge them, and the wording."""

    name: str
    title: str
    modes: tuple[Mode, ...]
    words: Literal["codes", "flags"]
    variants: Mapping[str, str] = field(default_factory=dict)

    @property
    def codes(self) -> tuple[str, ...]:
        """The diagnostics that can fail a network; every other one is advisory."""
        return _codes(self.modes)


NON_FINITE = Mode(
    "non-finite numbers", "The network holds numbers that are not finite.", {"D0": ""}, "non-finite", "non-finite"
)
_FOUR = (
    Mode("scale", "The residual stream explodes.", {"D1": ""}, "(a) scale", "(a)"),
    Mode("reference", "The reference gradient lies below the floor.", {"D2": ""}, "(b) reference", "(b)"),
    Mode("drift", "One direction dominates the reference gradients.", {"D4": ""}, "(c) drift", "(c)"),
    Mode("depth", "The trained blocks are no better than frozen ones.", {"D3": ""}, "(d) depth", "(d)"),
)
PROTOCOLS: Mapping[str, AuditProtocol] = {
    "three": AuditProtocol(
        "three",
        "scale stability and reference validity together, or depth utility",
        (
            NON_FINITE,
            Mode(
                "measurement degeneracy",
                "The stream exploded and the reference gradient collapsed with it: Γ is invalid, because a "
                "clamped cosine then compares credit with its clamp.",
                {"D1": "", "D2": "collapsed"},
            ),
            Mode("unused depth", "The trained blocks are no better than frozen random ones.", {"D3": ""}),
        ),
        "codes",
    ),
    "four": AuditProtocol("four", "any of four flags is enough", (*_FOUR, NON_FINITE), "flags"),
    "april": AuditProtocol(
        "april",
        "as `four`, with the scale relative to layer 0",
        (*_FOUR, NON_FINITE),
        "flags",
        {"D1": "april"},
    ),
}


def protocol_named(name: str) -> AuditProtocol:
    """The protocol of that name."""
    if name not in PROTOCOLS:
        raise UnknownName(unknown("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]


def _codes(modes: Iterable[Mode]) -> tuple[str, ...]:
    """Every code that these modes ask for, in natural order."""
    return tuple(sorted({code for mode in modes for code in mode.requires}, key=natural_key))


def judge(protocol: AuditProtocol, findings: Mapping[str, Finding]) -> Verdict:
    """The verdict on these findings: one mode shown fails, all modes ruled out pass, anything else is inconclusive."""
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
    protocol: AuditProtocol, findings: Mapping[str, Finding], shown: tuple[Mode, ...], still_open: tuple[Mode, ...]
) -> str:
    if protocol.words == "codes":
        word, modes = ("FAIL", shown) if shown else ("INCONCLUSIVE", still_open)
        codes = _codes(modes)
        return f"{word}({'+'.join(codes)})" if codes else "PASS"
    if shown:
        return "needs walk-back: " + "; ".join(mode.flag for mode in shown)
    if still_open:
        return "incomplete: " + "; ".join(_not_known(mode, findings) for mode in still_open)
    return "trustworthy"


def _not_known(mode: Mode, findings: Mapping[str, Finding]) -> str:
    (code,) = mode.requires
    status = findings[code].status if code in findings else Status.SKIPPED
    return f"{mode.letter} {'not measured' if status is Status.SKIPPED else status.value}"


def _why(findings: Mapping[str, Finding], shown: tuple[Mode, ...], still_open: tuple[Mode, ...]) -> str:
    if shown:
        return " ".join(mode.means for mode in shown)
    if still_open:
        reasons = (
            _open(code, findings.get(code))
            for mode in still_open
            for code in mode.requires
            if code not in findings or findings[code].status not in (Status.PASS, Status.FIRES)
        )
        return " ".join(reason.rstrip(".") + "." for reason in dict.fromkeys(reasons))
    return "None of the failures that this protocol looks for was found."


def _open(code: str, finding: Finding | None) -> str:
    """Why one diagnostic decides nothing."""
    if finding is None:
        return f"{code} was not measured"
    if finding.status is Status.SKIPPED:
        return f"{code} was not judged: {finding.note}"
    return f"{code} is {finding.status}" + (f": {finding.note}" if finding.note else "")
