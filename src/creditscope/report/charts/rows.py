"""Which numbers go into a chart?  Rows of plain values, taken from the records as they stand."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from creditscope.report.layers import GATED, collapsed
from creditscope.report.numbers import number
from creditscope.report.views import AuditView
from creditscope.verdict import Finding, Measurement

Row = dict[str, Any]
MOST_POINTS = 2000  # of the curves in one chart: more cannot be told apart, and make a page slow


def measurement(shown: AuditView, name: str) -> Measurement | None:
    """A measure or a diagnostic's measurement under its name."""
    if shown.report is None:
        return None
    if name in shown.report.measures:
        return shown.report.measures[name]
    finding = shown.report.findings.get(name)
    return None if finding is None else finding.measurement


def finding(views: Sequence[AuditView], code: str) -> Finding | None:
    """The first finding of that code: limits are the same in all reports of one protocol."""
    reports = (shown.report for shown in views if shown.report is not None)
    return next((report.findings[code] for report in reports if code in report.findings), None)


def layered(views: Sequence[AuditView], name: str, *, log: bool = False, first: int = 0, kind: str = "") -> list[Row]:
    """One row per run and layer; a value that cannot be drawn is None and leaves a gap."""
    rows = []
    for shown in views:
        found = measurement(shown, name)
        grey = name in GATED and shown.report is not None and collapsed(shown.report)
        for layer, value in enumerate(found.per_layer if found is not None else (), start=first):
            rows.append(row(shown, value, log=log) | {"layer": layer, "kind": kind, "grey": grey})
    return rows if any(line["value"] is not None for line in rows) else []


def row(shown: AuditView, value: float | None, *, log: bool = False) -> Row:
    """What every row carries: whose it is, its value, and the value in words."""
    return {
        "series": shown.label,
        "run": shown.key or shown.title,
        "value": drawable(value, log),
        "text": number(value),
    }


def drawable(value: float | None, log: bool = False) -> float | None:
    """The value if an axis has a place for it."""
    return value if value is not None and math.isfinite(value) and (value > 0 or not log) else None


def curves(views: Sequence[AuditView], field: str, *, log: bool = False) -> list[Row]:
    """One row per run and epoch, thinned evenly where there are very many; epoch 0 is before training."""
    runs = [shown for shown in views if shown.run is not None]
    points = sum(len(shown.run.history) for shown in runs if shown.run is not None)
    stride = max(1, math.ceil(points / MOST_POINTS))
    return [line for shown in runs for line in _curve(shown, field, stride, log)]


def _curve(shown: AuditView, field: str, stride: int, log: bool) -> Iterator[Row]:
    history = shown.run.history if shown.run is not None else ()
    for index, epoch in enumerate(history):
        if index % stride == 0 or index == len(history) - 1:
            yield row(shown, getattr(epoch, field), log=log) | {"epoch": epoch.epoch + 1}


def first_fired(views: Sequence[AuditView], code: str, field: str) -> list[Row]:
    """The first epoch of every run at which a number of its history lies past the limit of the diagnostic."""
    found = []
    for shown in views:
        judged = finding([shown], code) or finding(views, code)
        history = shown.run.history if shown.run is not None else ()
        at = [epoch.epoch + 1 for epoch in history if judged is not None and judged.limit.past(getattr(epoch, field))]
        if at:
            found.append(row(shown, None) | {"epoch": at[0], "code": code, "label": f"{code} from epoch {at[0]}"})
    return found
