"""The verdict in one sentence, with the numbers that carry it: the first thing that every page says."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from creditscope.modes import ACCURACY, CONTROL, Cited, Mode
from creditscope.protocols import PROTOCOLS
from creditscope.records.report import Report
from creditscope.report.numbers import UNITS, per_cent, value
from creditscope.verdict import Finding, Status, Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a sentence is made from: a verdict, the findings behind it, and both accuracies where they are known."""

    protocol: str
    verdict: Verdict
    findings: Mapping[str, Finding]
    accuracy: Sequence[float] | None = None
    control: Sequence[float] | None = None


def headline(report: Report) -> str:
    """The verdict of a report in words; several failures take several sentences, the weightiest first."""
    return " ".join(sentences(report))


def sentences(report: Report) -> list[str]:
    """The same, sentence by sentence."""
    return in_words(
        Judgement(report.protocol, report.verdict, report.findings, report.accuracy, report.control_accuracy)
    )


def in_words(judgement: Judgement) -> list[str]:
    """The sentences of any verdict; of a control, or under an unknown protocol, the reason that it gives itself."""
    verdict = judgement.verdict
    if verdict.outcome == "fail":
        said = [_shown(mode, judgement) for mode in _modes(judgement, verdict.shown)]
    elif verdict.outcome == "inconclusive":
        said = _open(judgement)
    else:
        said = _passed(judgement) if verdict.outcome == "pass" else []
    return said or [verdict.why]


def _modes(judgement: Judgement, names: Sequence[str]) -> list[Mode]:
    """The modes of these names, leading ones first; of those that share a consequence the first."""
    protocol = PROTOCOLS.get(judgement.protocol)
    every = [] if protocol is None else [mode.judged(judgement.findings) for mode in protocol.modes]
    modes = sorted((mode for mode in every if mode.name in names), key=lambda mode: not mode.headline.leads)
    return list({mode.consequence or mode.name: mode for mode in reversed(modes)}.values())[::-1]


def _shown(mode: Mode, judgement: Judgement) -> str:
    notes = [finding.note for finding in _findings(mode, judgement) if finding.note]
    return _sentence(mode.headline.shown, _because(mode, judgement) or "; ".join(notes))


def _passed(judgement: Judgement) -> list[str]:
    carrying = [mode for mode in _modes(judgement, judgement.verdict.ruled_out) if mode.headline.ruled_out]
    if not carrying:
        return []
    clauses = [_clause(mode.headline.ruled_out, _because(mode, judgement)) for mode in carrying]
    return [f"No failure was found, and {'; '.join(clauses)}."]


def _open(judgement: Judgement) -> list[str]:
    """The weightiest open question with its numbers or the reason why it has none, then the others by name."""
    modes = _modes(judgement, judgement.verdict.open)
    if not modes:
        return []
    first, *others = modes
    open_ = {finding.status for finding in _findings(first, judgement)} - {Status.FIRES}
    numbers = _because(first, judgement) if open_ == {Status.UNDECIDED} else ""
    reason = f"{numbers}; the interval contains the limit" if numbers else _not_known(first, judgement)
    sentence = _sentence(f"It is open {first.headline.question}", reason)
    also = "; ".join(mode.headline.question for mode in others)
    return [sentence, f"Also open: {also}."] if also else [sentence]


def _because(mode: Mode, judgement: Judgement) -> str:
    """The clause with its numbers; empty if one of them is not known."""
    numbers = {name: _number(cited, judgement) for name, cited in mode.headline.numbers.items()}
    return "" if "" in numbers.values() else mode.headline.because.format(**numbers)


def _number(cited: Cited, judgement: Judgement) -> str:
    """A cited number as the rest of the page prints it; empty if it was not measured."""
    if cited.of in (ACCURACY, CONTROL):
        shares = judgement.accuracy if cited.of == ACCURACY else judgement.control
        return f"{per_cent(shares)} %" if shares else ""
    finding = judgement.findings.get(cited.of)
    if finding is None or finding.value is None or not math.isfinite(finding.value):
        return ""
    return value(finding) if cited.part == "value" else finding.limit.text + UNITS[finding.limit.unit]


def _findings(mode: Mode, judgement: Judgement) -> list[Finding]:
    return [judgement.findings[code] for code in mode.requires if code in judgement.findings]


def _not_known(mode: Mode, judgement: Judgement) -> str:
    """Why an open mode could not be judged: what the first of its open diagnostics says."""
    missing = [f"{code} was not measured" for code in mode.requires if code not in judgement.findings]
    decided = (Status.PASS, Status.FIRES)
    reasons = [f.note or f"{f.code} is {f.status}" for f in _findings(mode, judgement) if f.status not in decided]
    return next(iter([*missing, *reasons]), "")


def _clause(claim: str, reason: str) -> str:
    return f"{claim}: {reason}" if reason else claim


def _sentence(claim: str, reason: str) -> str:
    return _clause(claim, reason).rstrip(".") + "."
