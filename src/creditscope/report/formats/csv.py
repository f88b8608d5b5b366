"""CSV: one row per finding and measure, for a spreadsheet or a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from creditscope.records.report import Report
from creditscope.report.csv_text import csv_text
from creditscope.report.formats import report_format
from creditscope.report.views import AuditView
from creditscope.verdict import Measurement

COLUMNS = (
    "subject", "key", "seed", "protocol", "verdict", "accuracy", "control_accuracy", "kind", "name", "title", "status",
    "reason", "value", "low", "high", "fires", "limit", "margin_unit", "per_layer", "per_seed", "note",
)  # fmt: skip


def several(views: Sequence[AuditView]) -> str:
    """All rows below one heading; a run that was not audited has none."""
    return csv_text(COLUMNS, (row for view in views for row in rows(view)))


@report_format("csv", title="CSV, one row per finding and measure", suffixes=(".csv",), several=several)
def csv(view: AuditView) -> str:
    """The rows of one audit."""
    return several([view])


def rows(view: AuditView) -> list[dict[str, Any]]:
    """One row per finding and measure of an audit; none for a run that was not audited."""
    return list(_rows(view))


def _rows(view: AuditView) -> Iterator[dict[str, Any]]:
    report = view.report
    if report is None:
        return
    shared = _shared(view, report)
    for code, finding in report.findings.items():
        own = {"kind": "finding", "name": code, "title": finding.title, "status": str(finding.status)}
        own["reason"] = "" if finding.reason is None else str(finding.reason)
        bound = {"fires": finding.limit.fires, "limit": float(finding.limit.at), "margin_unit": finding.limit.unit}
        yield shared | own | bound | _numbers(finding.measurement) | {"note": finding.note}
    for name, measure in report.measures.items():
        yield shared | {"kind": "measure", "name": name} | _numbers(measure) | {"note": measure.note}


def _shared(view: AuditView, report: Report) -> dict[str, Any]:
    """What every row of one audit repeats."""
    return {
        "subject": report.subject.name,
        "key": view.key,
        "seed": "" if view.seed is None else view.seed,
        "protocol": report.protocol,
        "verdict": str(report.verdict),
        "accuracy": _joined(report.accuracy or ()),
        "control_accuracy": _joined(report.control_accuracy or ()),
    }


def _numbers(measured: Measurement | None) -> dict[str, Any]:
    if measured is None:
        return {}
    low, high = measured.interval or ("", "")
    parts = {"per_layer": _joined(measured.per_layer), "per_seed": _joined(measured.per_seed)}
    return {"value": measured.value, "low": low, "high": high, **parts}


def _joined(values: Sequence[float]) -> str:
    """Numbers in full precision with blanks between."""
    return " ".join(map(repr, values))
