"""The chart of a field of methods: accuracy with its interval beside the frozen control, coloured by the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from creditscope.report.charts.rows import drawable
from creditscope.report.charts.theme import PAPER, Style

LINE = 20  # pixels per method
OUTCOMES = ("pass", "fail", "inconclusive")
SHAPES = ("circle", "cross", "diamond")
HEADROOM = 14  # pixels above the first method


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One method: its accuracy and that of its frozen control as shares, and the outcome of its audit."""

    label: str
    accuracy: float
    low: float | None
    high: float | None
    frozen: float | None
    outcome: str


def field_chart(rows: Sequence[FieldRow], style: Style = PAPER) -> dict[str, Any]:
    """The Vega-Lite specification, methods in the given order, in per cent; the frozen control is the hollow point."""
    import altair as alt

    palette = style.palette
    base = alt.Chart({"values": [_values(row) for row in rows]})
    y = alt.Y("label:N", title=None, sort=[row.label for row in rows], axis=alt.Axis(labelLimit=260))
    x = alt.X("accuracy:Q", title="test accuracy, per cent", scale=alt.Scale(zero=True))
    colours = alt.Scale(domain=list(OUTCOMES), range=[palette.good, palette.bad, palette.open])
    shapes = alt.Scale(domain=list(OUTCOMES), range=list(SHAPES))
    legend = alt.Legend(title="verdict", orient="top") if style.legend else None
    colour = alt.Color("outcome:N", scale=colours, legend=legend)
    shape = alt.Shape("outcome:N", scale=shapes, legend=legend)
    ways = base.mark_rule(strokeWidth=1, stroke=palette.muted, strokeDash=[2, 2])
    spans = base.mark_rule(strokeWidth=2.4).encode(y=y, x=alt.X("low:Q"), x2="high:Q", color=colour)
    controls = base.mark_point(filled=False, size=42, stroke=palette.muted, strokeWidth=1.4, opacity=1)
    points = base.mark_point(filled=True, size=64, opacity=1)
    chart = alt.LayerChart(
        layer=[
            ways.encode(y=y, x=alt.X("frozen:Q"), x2="accuracy:Q"),
            controls.encode(y=y, x=alt.X("frozen:Q")),
            spans,
            points.encode(x, y, colour, shape),
        ],
        height=LINE * len(rows) + HEADROOM,
        width=style.width,
    )
    return {**chart.to_dict(), "config": style.config()}


def _values(row: FieldRow) -> dict[str, Any]:
    shares = {name: getattr(row, name) for name in ("accuracy", "low", "high", "frozen")}
    if row.low is not None and row.high is not None:  # no accuracy lies outside, whatever few seeds would allow
        shares |= {"low": max(row.low, 0.0), "high": min(row.high, 1.0)}
    return asdict(row) | {name: drawable(None if share is None else 100 * share) for name, share in shares.items()}
