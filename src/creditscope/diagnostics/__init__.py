"""Diagnostics: questions about a trained network, each answered by one number; one file per question.

A diagnostic reads evidence and never makes any. The files import no torch, so `creditscope explain D2` is instant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from creditscope.errors import InvalidInput
from creditscope.protocols import DEFAULT, PROTOCOLS, AuditProtocol
from creditscope.registry import Registry, natural_key
from creditscope.verdict import Finding, Limit, Measurement, Missing, Reason, Status

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

Measure = Callable[["Evidence"], Measurement | Missing]
CODE = re.compile(r"[A-Z]+[0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostic:
    """One question: how it is measured, where it fires and why there, what it means and what to do.

    code      a prefix and a number: D1, D10, X3
    variant   names another form of the same question; empty for the plain form
    formula   the measured quantity: a sentence, then the equations
    do_when_skipped  what to do instead where it was skipped, by the reason
    do_by_cause, do_when_undecided  the same for a cause that the measurement names, and while it is undecided
    column    heading of its numbers in a table per layer, default: the code; empty to leave them out
    warns     whether it adds a warning to the verdict when it fires or names a cause
    """

    code: str
    variant: str
    title: str
    question: str
    formula: str
    limit: Limit
    means: str
    does_not_mean: str
    do: str
    measure: Measure
    column: str
    do_when_skipped: Mapping[Reason, str]
    do_by_cause: Mapping[str, str]
    do_when_undecided: str
    warns: bool

    def __post_init__(self) -> None:
        if not CODE.fullmatch(self.code):
            raise InvalidInput(
                f"A diagnostic cannot have the code {self.code!r}.\n"
                "Tables are sorted by it. Use capital letters and a number, such as D10 or X3."
            )

    @property
    def name(self) -> str:
        """Its key in the registry."""
        return registered_name(self.code, self.variant)

    def remedy(self, status: Status, reason: Reason | None = None, cause: str = "") -> str:
        """What to do about a finding with this status, reason and cause; nothing where it passes."""
        if status is Status.PASS:
            return ""
        if reason is not None:
            return self.do_when_skipped.get(reason, self.do)
        if status is Status.UNDECIDED and self.do_when_undecided:
            return self.do_when_undecided
        return self.do_by_cause.get(cause, self.do)

    @property
    def advice(self) -> str:
        """Everything that it may tell a reader to do, each with its case."""
        causes = (f"Cause `{cause}`: {text[0].lower()}{text[1:]}" for cause, text in self.do_by_cause.items())
        undecided = [f"While undecided: {self.do_when_undecided}"] if self.do_when_undecided else []
        return " ".join((self.do, *causes, *undecided, *self.do_when_skipped.values()))

    @property
    def summary(self) -> str:
        """Title and question in one line; a variant says whose it is."""
        variant = f" (variant of {self.code})" if self.variant else ""
        return f"{self.title}{variant}: {self.question}"


def registered_name(code: str, variant: str) -> str:
    """The key of a diagnostic in the registry: D1, or D1:april for a variant."""
    return f"{code}:{variant}" if variant else code


diagnostics: Registry[Diagnostic] = Registry("diagnostic", __name__)


def diagnostic(
    code: str,
    *,
    title: str,
    question: str,
    formula: str,
    limit: Limit,
    means: str,
    does_not_mean: str,
    do: str,
    do_when_skipped: Mapping[Reason, str] = {},
    do_by_cause: Mapping[str, str] = {},
    do_when_undecided: str = "",
    variant: str = "",
    column: str | None = None,
    warns: bool = False,
) -> Callable[[Measure], Measure]:
    """Register a function Evidence -> Measurement (or Missing) as a diagnostic; see `Diagnostic` for the fields."""

    def enter(measure: Measure) -> Measure:
        entry = Diagnostic(
            code=code,
            variant=variant,
            title=title,
            question=question,
            formula=formula,
            limit=limit,
            means=means,
            does_not_mean=does_not_mean,
            do=do,
            do_when_skipped=do_when_skipped,
            do_by_cause=do_by_cause,
            do_when_undecided=do_when_undecided,
            measure=measure,
            column=code if column is None else column,
            warns=warns,
        )
        diagnostics.add(entry.name, entry)
        return measure

    return enter


def examine(entry: Diagnostic, evidence: Evidence, at: float | None = None) -> Finding:
    """Measure, compare with the limit (or with the user's own), and return the finding."""
    limit = entry.limit if at is None else entry.limit.moved(at)
    answer = entry.measure(evidence)
    if isinstance(answer, Missing):
        status, measured, note, reason = Status.SKIPPED, answer.measured, answer.text, answer.reason
    else:
        status, measured, note, reason = limit.judge(answer), answer, answer.note, None
    if status is Status.UNDECIDED:
        note = "; ".join(part for part in (note, "the limit lies inside the interval") if part)
    return Finding(
        code=entry.code,
        title=entry.title,
        status=status,
        measurement=measured,
        limit=limit,
        note=note,
        remedy=entry.remedy(status, reason, measured.cause if measured is not None else ""),
        means=entry.means,
        does_not_mean=entry.does_not_mean,
        warns=entry.warns,
        variant=entry.variant,
        reason=reason,
        column=entry.column,
    )


def in_current_words(finding: Finding) -> Finding:
    """A stored finding with the texts that its diagnostic has now, where it is registered; numbers stay as they are."""
    name = registered_name(finding.code.partition(":")[0], finding.variant)
    if name not in diagnostics:
        return finding
    entry = diagnostics[name]
    remedy = entry.remedy(finding.status, finding.reason, finding.cause) if finding.remedy else ""
    current = (remedy, entry.means, entry.does_not_mean)
    if current == (finding.remedy, finding.means, finding.does_not_mean):
        return finding
    return replace(finding, remedy=remedy, means=entry.means, does_not_mean=entry.does_not_mean)


def examine_all(
    evidence: Evidence, protocol: AuditProtocol = PROTOCOLS[DEFAULT], limits: Mapping[str, float] = {}
) -> dict[str, Finding]:
    """A finding for every code in natural order, in the forms that the protocol asks for."""
    codes = [entry.code for entry in diagnostics.values() if not entry.variant]
    chosen = {code: diagnostics[registered_name(code, protocol.variants.get(code, ""))] for code in codes}
    chosen |= {name: diagnostics[name] for name in protocol.beside}
    findings = {name: examine(chosen[name], evidence, limits.get(name)) for name in sorted(chosen, key=natural_key)}
    named = {name: replace(finding, code=name) for name, finding in findings.items()}
    return {name: _unjudged(finding) if name in protocol.unjudged else finding for name, finding in named.items()}


def _unjudged(finding: Finding) -> Finding:
    """The same number without a judgement."""
    judged = finding.status in (Status.PASS, Status.FIRES, Status.UNDECIDED)
    return replace(finding, status=Status.MEASURED, remedy="") if judged else finding
