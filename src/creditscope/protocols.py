"""Protocols: the failure modes that an audit judges, and the verdict that follows from its findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from creditscope.errors import UnknownName
from creditscope.modes import (
    DEAD_STATES,
    DEGENERACY,
    DEPTH_FLAG,
    DEPTH_UNREAD,
    DRIFT,
    EXPLODED_BLOCK,
    EXPLODED_STREAM,
    EXPLODES,
    INVALID,
    NON_FINITE,
    REFERENCE,
    SCALE,
    SCALE_RELATIVE,
    UNUSED_DEPTH,
    Mode,
)
from creditscope.registry import natural_key, unknown
from creditscope.verdict import Finding, Status, Verdict


@dataclass(frozen=True, slots=True)
class AuditProtocol:
    """The failure modes that are judged, the variants of the diagnostics that judge them, and the wording.

    beside    variants that are measured beside the plain form, under their own names ("D1:stream")
    unjudged  codes that are measured without a limit
    warnings  what the reader is told where a diagnostic fires for this cause: code -> (cause, sentence)
    """

    name: str
    title: str
    modes: tuple[Mode, ...]
    words: Literal["codes", "flags"]
    variants: Mapping[str, str] = field(default_factory=dict)
    beside: tuple[str, ...] = ()
    unjudged: frozenset[str] = frozenset()
    warnings: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @property
    def needs_network(self) -> frozenset[str]:
        """Codes in a form that stored findings do not hold; D3 needs accuracies only, in any form."""
        return frozenset(self.variants) - {"D3"}

    @property
    def codes(self) -> tuple[str, ...]:
        """The diagnostics that can fail a network; every other one is advisory."""
        return _codes(self.modes)


PUBLISHED = {"D3": "published"}  # the first edition's intervals
DEFAULT = "strict"
PROTOCOLS: Mapping[str, AuditProtocol] = {
    "strict": AuditProtocol(
        "strict",
        "an exploded stream with a collapsed reference, dead states, or unused depth",
        (
            NON_FINITE,
            EXPLODED_BLOCK,
            EXPLODED_STREAM,
            DEAD_STATES,
            replace(UNUSED_DEPTH, instead=DEPTH_UNREAD),
        ),
        "codes",
        beside=("D1:stream", "D2:tail"),
        unjudged=frozenset({"D4"}),
        warnings={
            "D1:stream": ("", EXPLODES),
            "D2": ("collapsed", INVALID),
            "D12": ("", "No block has an influence on the loss, as in a network whose branches are still at zero."),
            "D13": ("", "At one of the states most images get no credit at all: Γ there describes the few others."),
        },
    ),
    "three": AuditProtocol(
        "three",
        "scale stability and reference validity together, or depth utility",
        (NON_FINITE, DEGENERACY, UNUSED_DEPTH),
        "codes",
        PUBLISHED,
    ),
    "four": AuditProtocol(
        "four", "any of four flags is enough", (SCALE, REFERENCE, DRIFT, DEPTH_FLAG, NON_FINITE), "flags", PUBLISHED
    ),
    "april": AuditProtocol(
        "april",
        "as `four`, with the scale relative to layer 0",
        (SCALE_RELATIVE, REFERENCE, DRIFT, DEPTH_FLAG, NON_FINITE),
        "flags",
        {"D1": "april", **PUBLISHED},
    ),
}


def protocol_named(name: str) -> AuditProtocol:
    """The protocol of that name."""
    if not isinstance(name, str) or name not in PROTOCOLS:
        raise UnknownName(unknown("protocol", name, PROTOCOLS))
    return PROTOCOLS[name]


def _codes(modes: Iterable[Mode]) -> tuple[str, ...]:
    """Every code that these modes ask for, in natural order."""
    return tuple(sorted({code for mode in modes for code in mode.requires}, key=natural_key))


def judge(protocol: AuditProtocol, findings: Mapping[str, Finding]) -> Verdict:
    """The verdict on these findings: one mode shown fails, all modes ruled out pass, anything else is inconclusive."""
    modes = tuple(mode.judged(findings) for mode in protocol.modes)
    states = {mode.name: mode.state(findings) for mode in modes}
    shown, ruled_out, still_open = (
        tuple(mode for mode in modes if states[mode.name] == state) for state in ("shown", "ruled out", "open")
    )
    outcome: Literal["pass", "fail", "inconclusive"] = "fail" if shown else "inconclusive" if still_open else "pass"
    return Verdict(
        text=_wording(protocol, findings, shown, still_open),
        outcome=outcome,
        shown=tuple(mode.name for mode in shown),
        ruled_out=tuple(mode.name for mode in ruled_out),
        open=tuple(mode.name for mode in still_open),
        why=_why(findings, shown, still_open),
        warnings=tuple(_warnings(protocol, findings, shown)),
    )


def alarms(protocol: AuditProtocol, findings: Mapping[str, Finding]) -> tuple[str, ...]:
    """The names of the findings that fire and that this protocol judges or warns about; a measured one never does."""
    return tuple(
        name
        for name, finding in findings.items()
        if finding.status is Status.FIRES and (name in protocol.codes or _warning(protocol, name, finding))
    )


def _warning(protocol: AuditProtocol, code: str, finding: Finding) -> str:
    """What the reader is told about one finding; empty if nothing."""
    cause, sentence = protocol.warnings.get(code, ("", ""))
    if finding.warns and (finding.status is Status.FIRES or finding.cause):
        return finding.note or finding.means
    return sentence if finding.status is Status.FIRES and cause in ("", finding.cause) else ""


def _warnings(protocol: AuditProtocol, findings: Mapping[str, Finding], shown: tuple[Mode, ...]) -> Iterator[str]:
    """What the reader is told beside the verdict; nothing that a shown mode says or has as its consequence."""
    told, said = {mode.consequence for mode in shown}, set(_codes(shown))
    for code, finding in findings.items():
        warning = _warning(protocol, code, finding)
        if warning and warning not in told and code not in said:
            yield f"{code} {finding.title}: {warning}"
    trained, read = findings.get("D3"), findings.get("D10")
    answers = {finding.status.fired for finding in (trained, read) if finding is not None}
    if "D3" in protocol.codes and answers == {True, False}:
        yield "D3 and D10 disagree: the verdict follows D3, which retrained the network with frozen blocks."


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
        sentences = (*(mode.means for mode in shown), *(mode.consequence for mode in shown))
        return " ".join(sentence for sentence in dict.fromkeys(sentences) if sentence)
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
