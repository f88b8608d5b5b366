"""Which way of reporting would have walked a network back?  Seven ways, each a question to one run.

The answer is None where a number that the way needs was not measured, or does not decide.
"""

from __future__ import annotations

from collections.abc import Callable

from creditscope.records.run import RunRecord
from creditscope.statistics.intervals import wilson_interval
from creditscope.study.tables import SeedRow
from creditscope.verdict import Finding, Status

CHANCE = 0.1  # ten classes
Strategy = Callable[[SeedRow, RunRecord], bool | None]


def at_chance(seed: SeedRow, record: RunRecord) -> bool:
    """Whether the accuracy is not above chance."""
    return not wilson_interval(record.accuracy, record.test_images)[0] > CHANCE


def unaligned(seed: SeedRow, record: RunRecord) -> bool | None:
    """Whether accuracy or Γ as usually reported gives cause for doubt: at chance, or no positive alignment."""
    if at_chance(seed, record):
        return True
    found = record.report.measures.get("gamma_clamped_mean") if record.report is not None else None
    return None if found is None else not found.value > 0


def _with(*codes: str) -> Strategy:
    def walks_back(seed: SeedRow, record: RunRecord) -> bool | None:
        answers = [unaligned(seed, record), *(counts(seed.findings.get(code)) for code in codes)]
        return True if True in answers else None if None in answers else False

    return walks_back


def counts(finding: Finding | None) -> bool | None:
    """Whether a diagnostic walks a run back: it fires.  Only a pass says no; undefined, undecided or absent is open.

    D2 says no too where it fires on a network that fits its data, and leaves it open where nothing tells the cause.
    """
    if finding is None or finding.status not in (Status.PASS, Status.FIRES):
        return None
    if finding.status is Status.PASS or finding.code != "D2":
        return finding.status is Status.FIRES
    return {"collapsed": True, "fitted": False}.get(finding.cause)


STRATEGIES: dict[str, Strategy] = {
    "accuracy": at_chance,
    "accuracy + Γ": unaligned,
    "+ D1": _with("D1"),
    "+ D2": _with("D2"),
    "+ D4": _with("D4"),
    "+ D3": _with("D3"),
    "all": _with("D0", "D1", "D2", "D3", "D4"),
}
