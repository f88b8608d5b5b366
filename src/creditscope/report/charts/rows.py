"""Rows of a chart: plain values, taken from the records unchanged."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from creditscope.report.layers import gated
from creditscope.report.numbers import number
from creditscope.report.views import AuditView
from creditscope.verdict import Finding, Measurement

Row = dict[str, Any]
MOST_POINTS = 2000  # of all curves in one chart; more cannot be distinguished and make a page slow


def measurement(view: AuditView, name: str) -> Measurement | None:
    """A measure or a diagnostic's measurement under its name."""
    if view.report is None:
        return None
    if name in view.report.measures:
        return view.report.measures[name]
    finding = view.report.findings.get(name)
    return None if finding is None else finding.measurement


def finding(views: Sequence[AuditView], code: str) -> Finding | None:
    """The first finding of that code: limits are the same in all reports of one protocol."""
    reports = (view.report for view in views if view.report is not None)
    return next((report.findings[code] for report in reports if code in report.findings), None)


def layered(views: Sequence[AuditView], name: str, *, log: bool = False, first: int = 0, kind: str = "") -> list[Row]:
    """One row per run and layer; a value that cannot be drawn is None and leaves a gap."""
    rows = []
    for view in views:
        measured = measurement(view, name)
        grey = view.report is not None and gated(view.report, name)
        for layer, value in enumerate(measured.per_layer if measured is not None else (), start=first):
            rows.append(row(view, value, log=log) | {"layer": layer, "kind": kind, "grey": grey})
    return rows if any(line["value"] is not None for line in rows) else []


def row(view: AuditView, value: float | None, *, log: bool = False) -> Row:
    """The fields of every row: its series, its run, its value, and the value as text."""
    return {
        "series": view.label,
        "run": view.key or view.title,
        "value": drawable(value, log),
        "text": number(value),
    }


def drawable(value: float | None, log: bool = False) -> float | None:
    """The value if an axis can show it, else None."""
    return value if value is not None and math.isfinite(value) and (value > 0 or not log) else None


def curves(views: Sequence[AuditView], field: str, *, log: bool = False) -> list[Row]:
    """One row per run and epoch, thinned evenly where there are very many; epoch 0 is before training."""
    runs = [view for view in views if view.run is not None]
    points = sum(len(view.run.history) for view in runs if view.run is not None)
    stride = max(1, math.ceil(points / MOST_POINTS))
    return [line for view in runs for line in _curve(view, field, stride, log)]


def _curve(view: AuditView, field: str, stride: int, log: bool) -> Iterator[Row]:
    history = view.run.history if view.run is not None else ()
    for index, epoch in enumerate(history):
        if index % stride == 0 or index == len(history) - 1:
            yield row(view, getattr(epoch, field), log=log) | {"epoch": epoch.epoch + 1}


def angles(views: Sequence[AuditView], *, by_weight: bool) -> list[Row]:
    """Angles of learnt feedback per run and epoch: a series for each weight, or their mean; thinned likewise."""
    kept = [(view, epoch) for view in views if view.run is not None for epoch in view.run.history if epoch.angles]
    lines = sum(len(epoch.angles) if by_weight else 1 for _, epoch in kept)
    stride = max(1, math.ceil(lines / MOST_POINTS))
    rows = []
    for index, (view, epoch) in enumerate(kept):
        last = index == len(kept) - 1 or kept[index + 1][0] is not view
        if index % stride == 0 or last:
            found = {name.removesuffix(".weight"): angle for name, angle in epoch.angles.items()}
            if not by_weight:
                found = {view.label: fmean(epoch.angles.values())}
            rows += [row(view, angle) | {"epoch": epoch.epoch + 1, "series": name} for name, angle in found.items()]
    return rows


def first_fired(views: Sequence[AuditView], code: str, field: str) -> list[Row]:
    """The first epoch of every run at which a number of its history lies past the limit of the diagnostic."""
    rows = []
    for view in views:
        judged = finding([view], code) or finding(views, code)
        history = view.run.history if view.run is not None else ()
        past = [epoch.epoch + 1 for epoch in history if judged is not None and judged.limit.past(getattr(epoch, field))]
        if past:
            label = f"{code} fires from epoch {past[0]}"
            rows.append(row(view, None) | {"epoch": past[0], "code": code, "label": label})
    return rows
