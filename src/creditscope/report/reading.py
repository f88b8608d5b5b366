"""What a report means for its reader: remedies, open questions, and what a PASS does not say."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.modes import Mode
from creditscope.protocols import PROTOCOLS
from creditscope.provenance import Guard, GuardStatus
from creditscope.records.report import Report
from creditscope.report.layout import Item
from creditscope.verdict import Finding, Reason, Status


def judged(report: Report) -> tuple[str, ...]:
    """The codes that can fail a network under the report's protocol."""
    known = PROTOCOLS[report.protocol].codes if report.protocol in PROTOCOLS else ()
    return tuple(dict.fromkeys((*known, *(code for mode in _modes(report) for code in mode.requires))))


def _modes(report: Report) -> list[Mode]:
    """The modes that were judged, some in the place of others."""
    protocol = PROTOCOLS.get(report.protocol)
    return [] if protocol is None else [mode.judged(report.findings) for mode in protocol.modes]


def asked(report: Report) -> list[Finding]:
    """The findings of an audit, without those about credit where no credit was given."""
    return [finding for finding in report.findings.values() if finding.reason is not Reason.NO_CREDIT]


def advisory(report: Report, code: str) -> bool:
    """Whether a diagnostic cannot fail the network under this protocol."""
    return code not in judged(report)


def carrying(report: Report) -> tuple[str, ...]:
    """The codes that the verdict rests on: of the modes shown, else of those open, else of what a PASS is said by."""
    verdict, modes = report.verdict, _modes(report)
    if verdict.outcome == "pass":
        wanted = [mode for mode in modes if mode.headline.ruled_out]
    else:
        wanted = [mode for mode in modes if mode.name in (verdict.shown or verdict.open)]
    return tuple(dict.fromkeys(code for mode in wanted for code in mode.requires))


def telling(report: Report) -> list[Finding]:
    """The findings that a reader must see: those that fire, and those that the verdict rests on or waits for."""
    left = (code for mode in _modes(report) if mode.name in report.verdict.open for code in mode.requires)
    waiting = (code for code in left if code in report.findings and _waits(report, code))
    wanted = {*carrying(report), *waiting}
    return [finding for finding in asked(report) if finding.status is Status.FIRES or finding.code in wanted]


def the_rest(report: Report) -> list[tuple[str, list[str]]]:
    """The codes of all other findings by their status, in words."""
    told = {finding.code for finding in telling(report)}
    words = {Status.PASS: "Passed", Status.MEASURED: "Measured without a limit", Status.UNDECIDED: "Undecided"}
    words |= {Status.UNDEFINED: "Undefined", Status.SKIPPED: "Not measured"}
    groups = {word: [f.code for f in asked(report) if f.status is status] for status, word in words.items()}
    kept = ((word, [code for code in codes if code not in told]) for word, codes in groups.items())
    return [(word, codes) for word, codes in kept if codes]


def remedies(report: Report) -> list[Item]:
    """What to do about every diagnostic that fires, and about every open one that the verdict waits for; each once."""
    wanted = {code for code, finding in report.findings.items() if finding.status is Status.FIRES}
    wanted |= {code for code in judged(report) if code in report.findings and _waits(report, code)}
    texts: dict[str, list[str]] = {}
    for code, finding in report.findings.items():
        if code in wanted and finding.remedy:
            texts.setdefault(finding.remedy, []).append(code)
    return [(", ".join(codes), remedy) for remedy, codes in texts.items()]


def _waits(report: Report, code: str) -> bool:
    """Whether a diagnostic is open for a reason of its own; once D0 fires, NaN makes the others undefined."""
    status = report.findings[code].status
    diverged = "D0" in report.findings and report.findings["D0"].status is Status.FIRES
    return status in (Status.UNDECIDED, Status.SKIPPED) or (status is Status.UNDEFINED and not diverged)


def left_open(report: Report) -> str:
    """For a failed network: which other failure modes could not be judged."""
    if report.verdict.outcome != "fail" or not report.verdict.open:
        return ""
    return f"Still open: {', '.join(report.verdict.open)}."


def not_meant(report: Report) -> list[Item]:
    """What a PASS does not say; nothing for any other outcome."""
    if report.verdict.outcome != "pass":
        return []
    ruled_out = ", ".join(report.verdict.ruled_out)
    first = f"It does not certify that the method works. It rules out: {ruled_out}. Nothing else was judged."
    return [("-", sentence) for sentence in (first, *_unsaid(report))]


def _unsaid(report: Report) -> Iterator[str]:
    """One sentence for every gap of this report."""
    for code, finding in report.findings.items():
        if finding.status is Status.FIRES:
            yield f"{code} fires nevertheless. {finding.does_not_mean}"
    depth = report.findings.get("D3")
    if depth is not None and depth.status is Status.PASS:
        yield "The trained blocks beat frozen random ones. How they compare with backprop's was not measured."
    if report.accuracy is not None and len(report.accuracy) == 1:
        yield "The accuracy is that of one seed; other seeds may differ."
    skipped = [finding for finding in asked(report) if finding.status is Status.SKIPPED]
    for title, numbered in (("Not measured", False), ("Shown but not judged", True)):
        names = [f"{f.code} {f.title.lower()}" for f in skipped if (f.measurement is not None) == numbered]
        if names:
            yield f"{title}: {', '.join(names)}."
    if "gamma" not in report.measures:
        yield "No credit signal was examined, so nothing is said about alignment."
    checked = report.provenance.guards.get("gradient", Guard(GuardStatus.OFF))
    if not checked.passed:
        yield f"The backward pass was not checked against a finite difference ({checked})."
