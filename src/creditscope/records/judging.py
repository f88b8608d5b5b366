"""Verdicts computed again from the findings of a report that was read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from creditscope.protocols import PROTOCOLS, judge
from creditscope.verdict import DIVERGED, Finding, Reason, Status, Verdict


def judged_findings(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """The findings, those that pass or fire by their own number and limit; without a number they are undefined."""
    return {code: _judged(finding) for code, finding in findings.items()}


def _judged(finding: Finding) -> Finding:
    if finding.status.fired is None:
        return finding
    status = Status.UNDEFINED if finding.measurement is None else finding.limit.judge(finding.measurement)
    return finding if status is finding.status else replace(finding, status=status)


def verdict_again(protocol: str, findings: Mapping[str, Finding], stored: Verdict) -> tuple[Verdict, str]:
    """The verdict that the findings give, and what the reader is told if it is not the stored one, else nothing.

    A run that diverged and a control have verdicts that do not follow from findings alone: neither is a pass.
    """
    known = PROTOCOLS.get(protocol)
    if known is None:
        said = f"This creditscope does not know the protocol {protocol!r}, so it cannot confirm {stored.text!r}."
        return Verdict("INCONCLUSIVE(protocol)", "inconclusive", (), (), (), said), said
    verdict = judge(known, findings)
    same = (verdict.text, verdict.outcome) == (stored.text, stored.outcome)
    if same or beyond_findings(verdict, stored, findings):
        return stored, ""
    return verdict, f"The file says {stored.text!r}, which does not follow from its findings; this verdict does."


def beyond_findings(verdict: Verdict, stored: Verdict, findings: Mapping[str, Finding]) -> bool:
    """Whether a stored verdict rests on more than the findings: the run diverged, or is a control without D3."""
    if stored.outcome == "control":
        return "D3" not in findings or findings["D3"].reason is Reason.NOT_APPLICABLE
    return (stored.text, stored.outcome, verdict.outcome) == (DIVERGED, "inconclusive", "pass")
