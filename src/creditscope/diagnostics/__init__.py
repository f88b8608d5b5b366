"""Questions about a trained network that are answered by one number each; one file per question.

These files read evidence and never make any, and they import no torch: `creditscope explain D2` is instant.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from creditscope.registry import Registry
from creditscope.verdict import Finding, Limit, Measurement, Missing, Status

if TYPE_CHECKING:
    from creditscope.evidence.records import Evidence

Measure = Callable[["Evidence"], Measurement | Missing]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One question: how it is measured, where it fires and why there, what it means and what to do.

    `name` is its key in the registry: the code, or code:variant for another form of the same question.
    """

    name: str
    title: str
    limit: Limit
    means: str
    does_not_mean: str
    do: str
    measure: Measure
    warns: bool = False
    revision: int = 1

    @property
    def code(self) -> str:
        """The code under which findings stand: D1 for D1 and for D1:april."""
        return self.name.partition(":")[0]

    @property
    def question(self) -> str:
        """The first line of the file that defines it, without the code."""
        first = (sys.modules[self.measure.__module__].__doc__ or "").strip().splitlines()[0]
        return first.partition(": ")[2] or first

    @property
    def formula(self) -> str:
        """The measuring function's own description."""
        return inspect.getdoc(self.measure) or ""


diagnostics: Registry[Diagnostic] = Registry("diagnostic", __name__)


def diagnostic(
    name: str, *, title: str, limit: Limit, means: str, does_not_mean: str, do: str, warns: bool = False
) -> Callable[[Measure], Measure]:
    """Register a function Evidence -> Measurement (or Missing) as the diagnostic `name`."""

    def enter(measure: Measure) -> Measure:
        diagnostics.add(name, Diagnostic(name, title, limit, means, does_not_mean, do, measure, warns))
        return measure

    return enter


def examine(entry: Diagnostic, evidence: Evidence, at: float | None = None) -> Finding:
    """Measure, compare with the limit (or with the user's own), and write down the finding."""
    limit = entry.limit
    if at is not None and at != limit.at:
        limit = replace(limit, at=at, because=f"set by the user; the calibrated limit is {limit.at:g}")
    answer = entry.measure(evidence)
    measured = answer if isinstance(answer, Measurement) else answer.measured
    status = limit.judge(answer) if isinstance(answer, Measurement) else Status.SKIPPED
    note = answer.note if isinstance(answer, Measurement) else answer.reason
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
    )


def examine_all(
    evidence: Evidence, variants: Mapping[str, str] = {}, limits: Mapping[str, float] = {}
) -> dict[str, Finding]:
    """Every registered diagnostic in order of its code, with a profile's variants in place of the plain forms."""
    plain = [name for name in diagnostics if ":" not in name]
    chosen = {code: diagnostics[variants.get(code, code)] for code in plain}
    return {code: examine(entry, evidence, limits.get(code)) for code, entry in chosen.items()}
