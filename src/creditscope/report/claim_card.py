"""The claim card: what is usually claimed against what the audit says, in one line."""

from __future__ import annotations

from dataclasses import dataclass

from creditscope.protocols import PROTOCOLS
from creditscope.records.report import Report
from creditscope.report.numbers import accuracy, limit, number, value
from creditscope.report.reading import judged
from creditscope.verdict import Finding, Status


@dataclass(frozen=True, slots=True)
class ClaimCard:
    """The two halves of a claim card."""

    name: str
    claimed: str
    audited: str

    def __str__(self) -> str:
        return f"{self.name} | claimed: {self.claimed} | audited: {self.audited}"


def claim_card(report: Report) -> ClaimCard:
    """Accuracy and average Γ, as usually reported, against the verdict and the numbers behind it."""
    parts = [f"accuracy {accuracy(report.accuracy)}" if report.accuracy else "no accuracy"]
    usual = report.measures.get("gamma_clamped_mean")
    if usual is not None:
        parts.append(f"Γ {number(usual.value)}")
    because = "; ".join(_reasons(report))
    return ClaimCard(report.subject.name, ", ".join(parts), str(report.verdict) + (f": {because}" if because else ""))


def _reasons(report: Report) -> list[str]:
    """The diagnostics behind a failure or an open verdict; for a pass, the benefit of depth."""
    if report.verdict.outcome == "fail":
        return [_fired(finding) for finding in _behind(report)]
    if report.verdict.outcome == "inconclusive":
        deciding = [report.findings[code] for code in judged(report) if code in report.findings]
        return [f"{finding.code} {finding.status}" for finding in deciding if _is_open(finding)]
    depth = report.findings.get("D3")
    return [_depth(depth)] if depth is not None and depth.status is Status.PASS else []


def _behind(report: Report) -> list[Finding]:
    """The findings that make up the failure modes of the verdict."""
    known = PROTOCOLS[report.protocol].modes if report.protocol in PROTOCOLS else ()
    modes = [mode.judged(report.findings) for mode in known if mode.name in report.verdict.shown]
    codes = {code for mode in modes for code in mode.requires}
    return [finding for code, finding in report.findings.items() if code in codes]


def _is_open(finding: Finding) -> bool:
    return finding.status not in (Status.PASS, Status.FIRES)


def _fired(finding: Finding) -> str:
    if finding.code == "D3":
        return _depth(finding)
    return f"{finding.title.lower()} {value(finding)} ({finding.code} fires {limit(finding.limit)})"


def _depth(finding: Finding) -> str:
    points = finding.value if finding.value is not None else float("nan")
    return f"{number(abs(points))} pp {'above' if points >= 0 else 'below'} its frozen control"
