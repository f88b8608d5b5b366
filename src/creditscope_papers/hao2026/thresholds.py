"""Threshold sensitivity: the gap that each limit sits in, and the verdicts under other limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from creditscope.papers.archive import RunArchive
from creditscope.papers.quantities import Quantity
from creditscope.papers.rendering import number
from creditscope.papers.tables import ComparisonRow, RunKeys, aggregate_row, keys_of
from creditscope.study.tables import AuditRow
from creditscope.verdict import Status
from creditscope_papers.hao2026.reporting import JUDGED

STUDY = "threshold_sensitivity"
GRIDS = {
    "D1": (5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 5000.0),
    "D2": (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3),
    "D3": (0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
}
PROTOCOL = "four"  # as published: in three, a reference that is fitted never fails, wherever the limit of D2 sits
CHANGED = Quantity("changed", "methods with another verdict of the four diagnostics", "count")
HEALTHY = Quantity("healthy", "nearest value on the silent side, without FA", "scale")
DEGENERATE = Quantity("degenerate", "nearest value on the firing side", "scale")


def threshold_sensitivity(archive: RunArchive) -> Iterator[ComparisonRow]:
    """The gap that each limit sits in, then the verdicts of the four diagnostics under every other limit."""
    for code in ("D1", "D2"):
        yield from _gap(archive, code)
    rows = [row for row in archive.audit_rows_under(STUDY, {}, PROTOCOL) if row.spec.control == "none"]
    usual = _verdicts(rows)
    runs = replace(keys_of(seed for row in rows for seed in row.seeds), seeds=())
    gaps = {
        "not run": [row.spec.method for row in rows if row.verdict is None],
        "not on every seed yet": [row.spec.method for row in rows if row.verdict is not None and row.missing],
    }
    note = "; ".join(f"{what}: {', '.join(methods)}" for what, methods in gaps.items() if methods)
    for code, grid in GRIDS.items():
        for limit in grid:
            moved = _verdicts(archive.audit_rows_under(STUDY, {code: limit}, PROTOCOL))
            other = [f"{name}: {text}" for name, text in moved.items() if text != usual[name]]
            values, texts = ([float(len(other))], (", ".join(other) or "none",)) if usual else ([], ())
            name = f"{code} at {limit:g}"
            figure = archive.figure(STUDY, name, CHANGED.name)
            yield aggregate_row(figure, name, CHANGED, values, runs, texts=texts, note=note)


def _verdicts(rows: list[AuditRow]) -> dict[str, str]:
    return {row.spec.method: str(row.verdict) for row in rows if row.verdict is not None}


def _gap(archive: RunArchive, code: str) -> Iterator[ComparisonRow]:
    """How far a limit could move before any run of the published methods changed sides; open while one is missing."""
    sides: dict[Status, list[tuple[float, str]]] = {Status.PASS: [], Status.FIRES: []}
    table = archive.audit_rows(STUDY)
    rows = [row for row in table if row.spec.control == "none" and row.spec.method in JUDGED]
    for row in rows:
        for seed in row.seeds:
            finding = seed.findings.get(code)
            if finding is not None and finding.status in sides and finding.value is not None:
                sides[finding.status].append((finding.value, seed.key))
    silent, firing = (max, min) if code == "D1" else (min, max)
    for quantity, status, nearest in ((HEALTHY, Status.PASS, silent), (DEGENERATE, Status.FIRES, firing)):
        extreme = [nearest(sides[status])] if sides[status] else []
        values, runs = [value for value, _ in extreme], RunKeys([key for _, key in extreme])
        figure = archive.figure(STUDY, code, quantity.name)
        if any(row.missing for row in rows):
            texts = tuple(f"so far {number(value, quantity.kind)}" for value in values)
            yield aggregate_row(figure, code, quantity, (), runs, texts=texts)
        else:
            yield aggregate_row(figure, code, quantity, values, runs)
