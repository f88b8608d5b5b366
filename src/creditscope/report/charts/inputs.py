"""ChartInputs, what the charts of one page show; ChartPlan, a chart before it is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from creditscope.report.charts.margins import Decision
from creditscope.report.charts.marks import Definition
from creditscope.report.charts.rows import Row
from creditscope.report.charts.series import Group, Look, Series, chart_name, looks
from creditscope.report.views import AuditView
from creditscope.verdict import Finding, Measurement

Table = Sequence[tuple[str, str]]  # heading and field of every column
LAYER: Table = (("layer", "layer"),)
EPOCH: Table = (("epoch", "epoch"),)


@dataclass(frozen=True, slots=True)
class ChartInputs:
    """The audits and runs that the charts of one page show.

    margins     depth utility over all seeds of a method, where a study has judged it
    decisions   which way of reporting rejects which method
    looks       colours and marks by label, where pages around these charts have them; else they follow from the methods
    """

    views: Sequence[AuditView]
    margins: Mapping[str, Measurement] = field(default_factory=dict)
    decisions: Sequence[Decision] = ()
    looks: Mapping[str, Look] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Names become such as a chart can show; a record from elsewhere may hold any."""
        views = [replace(view, label=chart_name(view.label), title=chart_name(view.title)) for view in self.views]
        object.__setattr__(self, "views", views)
        object.__setattr__(self, "margins", {chart_name(name): value for name, value in self.margins.items()})
        object.__setattr__(self, "looks", {chart_name(name): value for name, value in self.looks.items()})
        decisions = [replace(one, label=chart_name(one.label)) for one in self.decisions]
        object.__setattr__(self, "decisions", decisions)

    @property
    def names(self) -> tuple[str, ...]:
        """The series in the order in which they first appear, controls last."""
        return tuple(dict.fromkeys(view.label for view in sorted(self.views, key=lambda view: view.is_control)))

    @property
    def series(self) -> Group:
        """The series with their colours and marks."""
        known = self.looks or looks(self.views)
        return tuple(Series(name, known[name]) for name in self.names)

    @property
    def hidden_at_first(self) -> tuple[str, ...]:
        """The controls beside methods: a reader may switch them on."""
        methods = {view.label for view in self.views if not view.is_control}
        return tuple(name for name in self.names if name not in methods) if methods else ()

    def without_controls(self) -> ChartInputs:
        """The methods alone; everything if there are only controls."""
        methods = [view for view in self.views if not view.is_control]
        return replace(self, views=methods or self.views)

    @property
    def alone(self) -> AuditView | None:
        """The only view, if there is exactly one."""
        return self.views[0] if len(self.views) == 1 else None


@dataclass(frozen=True, slots=True)
class ChartPlan:
    """A chart before it is drawn: its title and caption, its definition and its rows by name.

    series  where they are not the methods of the page
    """

    name: str
    title: str
    caption: str
    definition: Definition
    rows: Mapping[str, list[Row]]
    columns: Table
    height: int | None = None  # where it follows from the number of rows
    series: Group | None = None


def limit_row(finding: Finding) -> Row:
    """A limit to draw across a chart, with its label."""
    bound = finding.limit
    unit = " points" if bound.unit == "points" else ""
    at = f"{bound.at:.2g}".replace("e-0", "e-") if 0 < abs(bound.at) < 1e-3 else bound.text
    return {"value": bound.at, "label": f"{finding.code} fires {bound.fires} {at}{unit}"}
