"""Rows of two charts: depth utility per seed and over all seeds, and which way of reporting rejects which method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from creditscope.records.labels import counted
from creditscope.report.charts.rows import Row, drawable, measurement, row
from creditscope.report.numbers import number
from creditscope.report.views import AuditView
from creditscope.verdict import Measurement


@dataclass(frozen=True, slots=True)
class Decision:
    """How many runs of a method one way of reporting rejects."""

    label: str
    strategy: str
    rejected: int
    runs: int


def margin_rows(views: Sequence[AuditView], joined: Mapping[str, Measurement]) -> list[Row]:
    """A row per seed, then one per method over all its seeds; each in a slot of its own."""
    rows: list[Row] = []
    for view in views:
        margin = measurement(view, "D3")
        if margin is None:
            continue
        seeds = margin.per_seed if len(margin.per_seed) > 1 else ()
        rows += [_row(view, Measurement(points), _seed(view, index)) for index, points in enumerate(seeds)]
        rows.append(_row(view, margin, "all seeds" if seeds else _seed(view, 0)))
    for label, margin in joined.items():
        rows.append(_row(AuditView(label, "all seeds"), margin, "all seeds"))
    slots: dict[str, int] = {}
    for line in rows:
        line["slot"] = slots[line["series"]] = slots.get(line["series"], -1) + 1
    return [line for line in rows if line["value"] is not None]


def _seed(view: AuditView, index: int) -> str:
    seeds = view.report.provenance.seeds if view.report is not None else ()
    seed = seeds[index] if index < len(seeds) else view.seed
    return f"seed {seed}" if seed is not None else "this network" if index == 0 else f"seed no. {index + 1}"


def _row(view: AuditView, margin: Measurement, kind: str) -> Row:
    low, high = margin.interval or (None, None)
    text = f"{number(low)} to {number(high)}" if margin.interval is not None else "none"
    ends = {"low": drawable(low), "high": drawable(high), "interval": text}
    return row(view, margin.value) | ends | {"kind": kind, "text": f"{number(margin.value)} pp"}


def decision_rows(decisions: Sequence[Decision]) -> list[Row]:
    """One row per method and strategy; mark and count say what the colour says."""
    return [
        {
            "series": decision.label,
            "strategy": decision.strategy,
            "share": decision.rejected / decision.runs,
            "word": f"{'✗' if decision.rejected else '·'} {decision.rejected}/{decision.runs}",
            "text": f"{decision.rejected} of {counted(decision.runs, 'run')} rejected",
            "run": "",
        }
        for decision in decisions
        if decision.runs
    ]
