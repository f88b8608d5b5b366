"""Questions about a trained network that are answered by one number each; one file per question.

These files read evidence and never make any, and they import no torch: `creditscope explain D2` is instant.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from creditscope.registry import Registry
from creditscope.verdict import Finding, Limit, Measurement, Missing, Status

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

Measure = Callable[["Evidence"], Measurement | Missing]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One question: how it is measured, where it fires and why there, what it means and what to do.

    `variant` names another form of the same question; the plain form has none.
    """

    code: str
    variant: str
    title: str
    limit: Limit
    means: str
    does_not_mean: str
    do: str
    measure: Measure
    warns: bool = False
    revision: int = 1

    @property
    def name(self) -> str:
        """Its key in the registry."""
        return registered_name(self.code, self.variant)

    @property
    def question(self) -> str:
        """The first line of the file that defines it, without the code."""
        first = (sys.modules[self.measure.__module__].__doc__ or "").strip().splitlines()[0]
        return first.partition(": ")[2] or first

    @property
    def formula(self) -> str:
        """The measuring function's own description."""
        return inspect.getdoc(self.measure) or ""


def registered_name(code: str, variant: str) -> str:
    """The key of a diagnostic in the registry: D1, or D1:april for a variant."""
    return f"{code}:{variant}" if variant else code


diagnostics: Registry[Diagnostic] = Registry("diagnostic", __name__)


def diagnostic(
    code: str,
    *,
    title: str,
    limit: Limit,
    means: str,
    does_not_mean: str,
    do: str,
    variant: str = "",
    warns: bool = False,
) -> Callable[[Measure], Measure]:
    """Register a function Evidence -> Measurement (or Missing) as the diagnostic `code`, or as a variant of it."""

    def enter(measure: Measure) -> Measure:
        entry = Diagnostic(code, variant, title, limit, means, does_not_mean, do, measure, warns)
        diagnostics.add(entry.name, entry)
        return measure

    return enter


def examine(entry: Diagnostic, evidence: Evidence, at: float | None = None) -> Finding:
    """Measure, compare with the limit (or with the user's own), and write down the finding."""
    limit = entry.limit if at is None else entry.limit.moved(at)
    answer = entry.measure(evidence)
    if isinstance(answer, Missing):
        status, measured, note, reason = Status.SKIPPED, answer.measured, answer.text, answer.reason
    else:
        status, measured, note, reason = limit.judge(answer), answer, answer.note, None
    if status is Status.UNDECIDED and measured is not None and measured.interval is not None:
        note += "; the limit lies inside the interval"
    return Finding(
        code=entry.code,
        title=entry.title,
        status=status,
        measurement=measured,
        limit=limit,
        note=note,
        remedy=entry.do if status is not Status.PASS else "",
        means=entry.means,
        does_not_mean=entry.does_not_mean,
        warns=entry.warns,
        variant=entry.variant,
        reason=reason,
    )


def examine_all(
    evidence: Evidence, variants: Mapping[str, str] = {}, limits: Mapping[str, float] = {}
) -> dict[str, Finding]:
    """Every registered diagnostic in order of its code, with a profile's variants in place of the plain forms."""
    codes = [entry.code for entry in diagnostics.values() if not entry.variant]
    chosen = {code: diagnostics[registered_name(code, variants.get(code, ""))] for code in codes}
    return {code: examine(entry, evidence, limits.get(code)) for code, entry in chosen.items()}
