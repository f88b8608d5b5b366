"""The forest plot of comparisons: a point and its interval for every pair of methods, and the line of no difference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from creditscope.errors import InvalidInput
from creditscope.files import atomic_write
from creditscope.report.charts.figures import rendered
from creditscope.report.charts.rows import drawable
from creditscope.report.charts.series import chart_name
from creditscope.report.charts.theme import PAPER, Style
from creditscope.statistics.comparison import PairComparison

FORMS = (".svg", ".pdf", ".png")
LINE = 22  # pixels per pair


def forest(pairs: Sequence[PairComparison], style: Style = PAPER) -> dict[str, Any]:
    """The Vega-Lite specification, in percentage points; pairs that are not decided are grey."""
    import altair as alt

    rows = [_row(pair) for pair in pairs]
    base = alt.Chart({"values": rows})
    y = alt.Y("pair:N", title=None, sort=[row["pair"] for row in rows], axis=alt.Axis(labelLimit=260))
    x = alt.X("value:Q", title="difference of the accuracies, points (95 % interval)")
    fill = alt.condition("datum.decided", alt.value(style.palette.series[0]), alt.value(style.palette.muted))
    none = alt.Chart({"values": [{"zero": 0}]}).mark_rule(strokeDash=[5, 4], stroke=style.palette.muted)
    spans = base.mark_rule(strokeWidth=2.2).encode(y=y, x=alt.X("low:Q"), x2="high:Q", stroke=fill)
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x, y, fill=fill)
    chart = alt.LayerChart(layer=[none.encode(x="zero:Q"), spans, points], height=LINE * len(rows), width=300)
    return {**chart.to_dict(), "config": style.config()}


def write_forest(pairs: Sequence[PairComparison], path: Path) -> Path:
    """Write the plot; the suffix is the format."""
    if path.suffix.lower() not in FORMS:
        raise InvalidInput(
            f"{path} is not an SVG, PDF or PNG file.\nThe plot was not drawn. Give one of {', '.join(FORMS)}."
        )
    with atomic_write(path) as part:
        part.write_bytes(rendered(forest(pairs), path.suffix.lower()[1:]))
    return path


def _row(pair: PairComparison) -> dict[str, Any]:
    low, high = pair.interval or (None, None)
    return {
        "pair": f"{chart_name(pair.left)} - {chart_name(pair.right)}",
        "value": drawable(100 * pair.difference),
        "low": drawable(None if low is None else 100 * low),
        "high": drawable(None if high is None else 100 * high),
        "decided": pair.decided,
    }
