"""Charts of pairs of numbers with the line of equality, as ours against the published ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from creditscope.report.charts.figures import rendered
from creditscope.report.charts.marks import DECADES
from creditscope.report.charts.theme import PAPER, Style

if TYPE_CHECKING:
    import altair as alt

SIDE = 156  # pixels of a panel: two of them can be read on a telephone
COLUMNS = 2
ANSWERS = ("agrees", "differs", "undecided")
SHAPES = ("circle", "cross", "diamond")
SMALLEST = 1e-4  # where an axis for either sign turns linear


@dataclass(frozen=True, slots=True)
class Panel:
    """Numbers that share axes: in one unit, logarithmic, or logarithmic on either side of zero; with titles of axes."""

    title: str
    scale: Literal["linear", "log", "symlog"] = "linear"
    across: str = "published"
    up: str = "ours"


@dataclass(frozen=True, slots=True)
class IdentityDot:
    """One number: the published value, ours, how they compare, and the address of its row."""

    panel: Panel
    name: str
    theirs: float
    ours: float
    answer: str
    hollow: bool
    href: str


def identity_chart(dots: Sequence[IdentityDot], style: Style = PAPER) -> dict[str, Any]:
    """The Vega-Lite specification: a square panel for every kind of number, equal on the diagonal."""
    import altair as alt

    panels = list(dict.fromkeys(dot.panel for dot in dots))
    charts = [_panel(panel, [dot for dot in dots if dot.panel == panel], style) for panel in panels]
    chart = alt.concat(*charts, columns=COLUMNS, spacing=16)
    return {**chart.to_dict(), "config": style.config() | {"title": _title(style)}}


def identity_svg(dots: Sequence[IdentityDot], style: Style) -> str:
    """The chart as SVG to stand in a page: its links are relative, have a name, and are no stops of the Tab key.

    The table behind the chart holds the same links for the keyboard.
    """
    named = {dot.href: escape(dot.name) for dot in dots}
    svg = rendered(identity_chart(dots, style), "svg").decode()

    def link(found: re.Match[str]) -> str:
        href = found[1].rpartition("/")[2]  # the converter makes links absolute
        return f'<a href="{href}" aria-label="{named[href]}" tabindex="-1">'

    return re.sub(r'<a xlink:href="([^"]*)">', link, svg)


def _title(style: Style) -> dict[str, Any]:
    return {"font": style.font, "fontSize": style.font_size, "color": style.palette.ink, "anchor": "start"}


def _panel(panel: Panel, dots: Sequence[IdentityDot], style: Style) -> alt.LayerChart:
    import altair as alt

    ends = [end for dot in dots for end in (dot.theirs, dot.ours)]
    low, high = _widened(min(ends), max(ends), panel.scale)
    scale = alt.Scale(type=panel.scale, domain=[low, high], nice=False)
    if panel.scale == "symlog":
        scale = alt.Scale(type="symlog", constant=SMALLEST, domain=[low, high], nice=False)
    axis = _axis(panel.scale)
    x = alt.X("theirs:Q", title=panel.across, scale=scale, axis=axis)
    y = alt.Y("ours:Q", title=panel.up, scale=scale, axis=axis)
    palette = style.palette
    colours = alt.Scale(domain=list(ANSWERS), range=[palette.good, palette.bad, palette.open])
    legend = alt.Legend(title=None, orient="top") if style.legend else None
    colour = alt.Color("answer:N", scale=colours, legend=legend)
    shape = alt.Shape("answer:N", scale=alt.Scale(domain=list(ANSWERS), range=list(SHAPES)), legend=legend)
    diagonal = alt.Chart({"values": [{"theirs": end, "ours": end} for end in (low, high)]})
    line = diagonal.mark_line(stroke=palette.muted, strokeWidth=1.2, strokeDash=[5, 4]).encode(x, y)
    layers = [line]
    for hollow in (True, False):
        kept = [{**asdict(dot), "panel": panel.title} for dot in dots if dot.hollow == hollow]
        points = alt.Chart({"values": kept}).mark_point(filled=not hollow, size=44, opacity=0.85, strokeWidth=1.5)
        layers.append(points.encode(x, y, colour, shape, href="href:N", tooltip="name:N"))
    return alt.LayerChart(layer=layers, title=panel.title, width=SIDE, height=SIDE)


def _widened(low: float, high: float, scale: str) -> tuple[float, float]:
    """A little air around the numbers."""
    if scale == "log":
        return low / 2, high * 2
    if scale == "symlog":
        return (low * 2 if low < 0 else -SMALLEST), high * 1.5
    air = 0.05 * (high - low or 1.0)
    return low - air, high + air


def _axis(scale: str) -> alt.Axis:
    import altair as alt

    if scale == "linear":
        return alt.Axis(tickCount=5)
    if scale == "log":
        return alt.Axis(tickCount=4, labelExpr=DECADES)
    return alt.Axis(values=[-1, -0.1, -0.01, -0.001, 0, 0.001, 0.01, 0.1, 1], format="~g", labelOverlap=True)
