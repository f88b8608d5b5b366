"""What do the charts of one page show, and what is a chart before it is drawn?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from creditscope.report.charts.margins import Decision
from creditscope.report.charts.marks import Definition
from creditscope.report.charts.rows import Row
from creditscope.report.views import AuditView
from creditscope.verdict import Finding, Measurement

Table = Sequence[tuple[str, str]]  # heading and field of every column
LAYER: Table = (("layer", "layer"),)
EPOCH: Table = (("epoch", "epoch"),)


@dataclass(frozen=True, slots=True)
class ChartInputs:
    """What the charts of one page show.

    margins     depth utility over all seeds of a method, where a study has judged it
    decisions   which way of reporting walks back which method
    """

    views: Sequence[AuditView]
    margins: Mapping[str, Measurement] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The series in the order in which they first appear, controls last."""
        return tuple(dict.fromkeys(shown.label for shown in sorted(self.views, key=lambda shown: shown.is_control)))

    @property
    def hidden_at_first(self) -> tuple[str, ...]:
        """The controls beside methods: there on request, switched off at first."""
        methods = {shown.label for shown in self.views if not shown.is_control}
        return tuple(name for name in self.names if name not in methods) if methods else ()

    def without_controls(self) -> ChartInputs:
        """The methods alone; whatever there is if there are only controls."""
        methods = [shown for shown in self.views if not shown.is_control]
        return replace(self, views=methods or self.views)

    @property
    def alone(self) -> AuditView | None:
        """The only view, if there is one only."""
        return self.views[0] if len(self.views) == 1 else None


@dataclass(frozen=True, slots=True)
class ChartPlan:
    """A chart before it is drawn: its words, its definition and the rows that join it by name."""

    name: str
    title: str
    caption: str
    definition: Definition
    rows: Mapping[str, list[Row]]
    columns: Table
    height: int | None = None  # where it follows from the number of rows


def limit_row(finding: Finding) -> Row:
    """A limit to be drawn across a chart, in words."""
    bound = finding.limit
    unit = " points" if bound.unit == "points" else ""
    at = f"{bound.at:.0e}".replace("e-0", "e-") if 0 < abs(bound.at) < 1e-3 else f"{bound.at:g}"
    return {"value": bound.at, "label": f"{finding.code} fires {bound.fires} {at}{unit}"}
