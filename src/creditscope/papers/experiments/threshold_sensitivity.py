"""Experiment 12: threshold sensitivity."""

from __future__ import annotations

from collections.abc import Iterator

from creditscope.papers.book import Book
from creditscope.papers.experiments import experiment
from creditscope.papers.experiments.decision_utility import JUDGED
from creditscope.papers.quantities import Quantity
from creditscope.papers.sheet import Line, computed, twins
from creditscope.papers.words import number
from creditscope.study.tables import AuditRow
from creditscope.verdict import Status

GRIDS = {
    "D1": (5.0, 10.0, 20.0, 50.0, 100.0, 500.0, 1000.0, 5000.0),
    "D2": (1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3),
    "D3": (0.5, 1.0, 2.0, 3.0, 5.0, 10.0),
}
PROTOCOL = "four"  # as published: in three, a reference that is fitted never fails, wherever the limit of D2 sits
CHANGED = Quantity("changed", "methods with another verdict of the four diagnostics", "count")
HEALTHY = Quantity("healthy", "nearest value on the silent side, without FA", "scale")
DEGENERATE = Quantity("degenerate", "nearest value on the firing side", "scale")


@experiment("threshold_sensitivity", number=12, question="Do the verdicts depend on where the limits sit?")
def threshold_sensitivity(book: Book) -> Iterator[Line]:
    """The gap that each limit sits in, then the verdicts of the four diagnostics under every other limit."""
    for code in ("D1", "D2"):
        yield from _gap(book, code)
    rows = [row for row in _rows(book, {}) if row.spec.control == "none"]
    usual = _verdicts(rows)
    keys = [seed.key for row in rows for seed in row.seeds]
    against = tuple(key for row in rows for key in twins(row.seeds))
    gaps = {
        "not run": [row.spec.method for row in rows if row.verdict is None],
        "not on every seed yet": [row.spec.method for row in rows if row.verdict is not None and row.missing],
    }
    note = "; ".join(f"{what}: {', '.join(methods)}" for what, methods in gaps.items() if methods)
    for code, grid in GRIDS.items():
        for limit in grid:
            moved = _verdicts(_rows(book, {code: limit}))
            other = [f"{name}: {text}" for name, text in moved.items() if text != usual[name]]
            values, texts = ([float(len(other))], (", ".join(other) or "none",)) if usual else ([], ())
            name = f"{code} at {limit:g}"
            yield computed(
                "threshold_sensitivity", name, CHANGED, values, keys, against=against, texts=texts, note=note
            )


def _rows(book: Book, limits: dict[str, float]) -> list[AuditRow]:
    return book.table_under("threshold_sensitivity", limits, PROTOCOL)


def _verdicts(rows: list[AuditRow]) -> dict[str, str]:
    return {row.spec.method: str(row.verdict) for row in rows if row.verdict is not None}


def _gap(book: Book, code: str) -> Iterator[Line]:
    """How far a limit could move before any run of the published methods changed sides; open while one is missing."""
    sides: dict[Status, list[tuple[float, str]]] = {Status.PASS: [], Status.FIRES: []}
    table = book.table("threshold_sensitivity")
    rows = [row for row in table if row.spec.control == "none" and row.spec.method in JUDGED]
    for row in rows:
        for seed in row.seeds:
            finding = seed.findings.get(code)
            if finding is not None and finding.status in sides and finding.value is not None:
                sides[finding.status].append((finding.value, seed.key))
    silent, firing = (max, min) if code == "D1" else (min, max)
    for quantity, status, nearest in ((HEALTHY, Status.PASS, silent), (DEGENERATE, Status.FIRES, firing)):
        found = [nearest(sides[status])] if sides[status] else []
        values, keys = [value for value, _ in found], [key for _, key in found]
        if any(row.missing for row in rows):
            texts = tuple(f"so far {number(value, quantity.kind)}" for value in values)
            yield computed("threshold_sensitivity", code, quantity, (), keys, texts=texts)
        else:
            yield computed("threshold_sensitivity", code, quantity, values, keys)
