"""Decision utility: seven ways of reporting, and which methods each would have rejected.

The answer for a run is None where a number that the way needs was not measured or does not decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import all_of
from creditscope.papers.quantities import Quantity, measured
from creditscope.papers.tables import ComparisonRow, aggregate_row, keys_of
from creditscope.records.run import RunRecord
from creditscope.report.charts.margins import Decision
from creditscope.statistics.intervals import wilson_interval
from creditscope.study.tables import SeedRow
from creditscope.verdict import Finding, Status

CHANCE = 0.1  # ten classes
METHODS = ("bp", "fa", "dfa", "ep", "state_bridge", "credit_bridge")
JUDGED = tuple(method for method in METHODS if method != "fa")  # the five of the published count
STANDARD = ("accuracy", "accuracy + Γ")
REJECTED = Quantity("rejected", "methods rejected on every seed, of 5", "count")
Strategy = Callable[[SeedRow, RunRecord], bool | None]


def at_chance(seed: SeedRow, record: RunRecord) -> bool:
    """Whether the accuracy is not above chance."""
    return not wilson_interval(record.accuracy, record.test_images)[0] > CHANCE


def unaligned(seed: SeedRow, record: RunRecord) -> bool | None:
    """Whether accuracy or Γ as usually reported gives cause for doubt: at chance, or no positive alignment."""
    if at_chance(seed, record):
        return True
    gamma = measured(record, "gamma_clamped_mean")
    return None if gamma is None else not gamma.value > 0


def _with(*codes: str) -> Strategy:
    def rejects(seed: SeedRow, record: RunRecord) -> bool | None:
        answers = [unaligned(seed, record), *(counts(seed.findings.get(code)) for code in codes)]
        return True if True in answers else None if None in answers else False

    return rejects


def counts(finding: Finding | None) -> bool | None:
    """Whether a diagnostic rejects a run by firing; only a pass says no, anything else is open.

    D2 says no also if it fires on a network that fits its data, and is open if the cause is unknown.
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


def decision_utility(archive: RunArchive) -> Iterator[ComparisonRow]:
    """One row for every way of reporting; FA is named but not counted, as it was not among the published five."""
    audited = (archive.audit_row("decision_utility", {"method": method}) for method in METHODS)
    rows = [row for row in audited if row is not None]
    runs = replace(keys_of(seed for row in rows for seed in row.seeds), seeds=())
    partly = [row.spec.method for row in rows if row.missing]
    for name in STRATEGIES:
        answers = {method: rejected(archive, method, name) for method in METHODS}
        back = [method for method, answer in answers.items() if answer]
        unknown = [method for method in JUDGED if answers[method] is None]
        complete = not unknown and not set(partly) & set(JUDGED)
        count = [float(sum(method in JUDGED for method in back))] if complete else []
        text = ("so far: " if unknown or partly else "") + (", ".join(back) or "none")
        gaps = {"not run, or not measured": unknown, "not on every seed yet": partly}
        notes = [f"{what}: {', '.join(methods)}" for what, methods in gaps.items() if methods]
        notes += [_already(archive, method) for method in back if name not in STANDARD]
        note = "; ".join(one for one in notes if one)
        figure = archive.figure("decision_utility", name, REJECTED.name)
        yield aggregate_row(figure, name, REJECTED, count, runs, texts=(text,) if rows else (), note=note)


def _already(archive: RunArchive, method: str) -> str:
    """On how many seeds accuracy and Γ reject a method without any diagnostic; empty if on none."""
    answers = seed_by_seed(archive, method, STANDARD[-1])
    count = sum(answer is True for answer in answers)
    return f"{method} on {count} of {len(answers)} seeds by accuracy or Γ alone" if count else ""


def rejected(archive: RunArchive, method: str, strategy: str) -> bool | None:
    """Whether a way of reporting rejects a method on every seed that was run; None where that is not known."""
    answers = seed_by_seed(archive, method, strategy)
    return all_of(answers) if answers else None


def seed_by_seed(archive: RunArchive, method: str, strategy: str) -> list[bool | None]:
    """Whether a way of reporting rejects a method, for every seed that was run."""
    row = archive.audit_row("decision_utility", {"method": method})
    seeds = row.seeds if row is not None else ()
    runs = [(seed, record) for seed in seeds if (record := archive.record(seed.key)) is not None]
    return [STRATEGIES[strategy](seed, record) for seed, record in runs]


def decisions(archive: RunArchive) -> list[Decision]:
    """How many seeds of each method each way rejects, for the chart; seeds without an answer are not counted."""
    chart = []
    for method in METHODS:
        row = archive.audit_row("decision_utility", {"method": method})
        for name in STRATEGIES if row is not None else ():
            answers = [answer for answer in seed_by_seed(archive, method, name) if answer is not None]
            if answers and row is not None:
                chart.append(Decision(row.label, name, sum(answers), len(answers)))
    return chart
