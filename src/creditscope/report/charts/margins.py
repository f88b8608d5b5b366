"""What is depth worth, seed by seed and over all of them, and which way of reporting would have noticed?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from creditscope.report.charts.rows import Row, drawable, measurement, row
from creditscope.report.numbers import number
from creditscope.report.views import AuditView
from creditscope.verdict import Measurement


@dataclass(frozen=True, slots=True)
class Decision:
    """How many runs of a method one way of reporting walks back."""

    label: str
    strategy: str
    walked_back: int
    runs: int


def margin_rows(views: Sequence[AuditView], joined: Mapping[str, Measurement]) -> list[Row]:
    """A row per seed, then one per method over all its seeds; each in a slot of its own."""
    rows: list[Row] = []
    for shown in views:
        found = measurement(shown, "D3")
        if found is None:
            continue
        seeds = found.per_seed if len(found.per_seed) > 1 else ()
        rows += [_row(shown, Measurement(margin), _seed(shown, index)) for index, margin in enumerate(seeds)]
        rows.append(_row(shown, found, "all seeds" if seeds else _seed(shown, 0)))
    for label, found in joined.items():
        rows.append(_row(AuditView(label, "all seeds"), found, "all seeds"))
    slots: dict[str, int] = {}
    for line in rows:
        line["slot"] = slots[line["series"]] = slots.get(line["series"], -1) + 1
    return [line for line in rows if line["value"] is not None]


def _seed(shown: AuditView, index: int) -> str:
    seeds = shown.report.provenance.seeds if shown.report is not None else ()
    seed = seeds[index] if index < len(seeds) else shown.seed
    return f"seed {seed}" if seed is not None else "this network" if index == 0 else f"seed no. {index + 1}"


def _row(shown: AuditView, found: Measurement, kind: str) -> Row:
    low, high = found.interval or (None, None)
    words = f"{number(low)} to {number(high)}" if found.interval is not None else "none"
    ends = {"low": drawable(low), "high": drawable(high), "interval": words}
    return row(shown, found.value) | ends | {"kind": kind, "text": f"{number(found.value)} pp"}


def decision_rows(decisions: Sequence[Decision]) -> list[Row]:
    """A field per method and strategy, with a mark and the count, so that colour is not needed."""
    return [
        {
            "series": decision.label,
            "strategy": decision.strategy,
            "share": decision.walked_back / decision.runs,
            "word": f"{'✗' if decision.walked_back else '·'} {decision.walked_back}/{decision.runs}",
            "text": f"{decision.walked_back} of {decision.runs} walked back",
            "run": "",
        }
        for decision in decisions
        if decision.runs
    ]
