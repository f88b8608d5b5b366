"""Marks, axes and scales in Altair, without data, shared by all definitions.

A definition knows the style and the names of the series and is made once for both; the rows join it by name
(`points`, `limits`, ...) afterwards. Two hundred pages with the same charts cost two hundred tables of numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from creditscope.report.charts.series import Group, Series
from creditscope.report.charts.theme import SHAPES, Style

Definition = Callable[[Style, Group], alt.LayerChart]

DECADES = (
    "datum.label === '' ? '' : datum.value < 1e-3 || datum.value >= 1e5 "
    "? replace(format(datum.value, '.0e'), 'e+', 'e') : format(datum.value, ',~r')"
)
HISTORY_CODES = ("D1", "D2")  # the diagnostics that a run measures after every epoch
HIDDEN = "hidden"  # the series that the reader has switched off
VISIBLE = f"indexof({HIDDEN}, datum.series) < 0"


def specification_of(definition: Definition, style: Style, group: Group) -> dict[str, Any]:
    """The Vega-Lite specification of a definition for these series, without its rows."""
    stand_ins = tuple(Series(f"series {index}", series.look) for index, series in enumerate(group))
    spec: dict[str, Any] = _replaced(_specification(definition, style, stand_ins), names(stand_ins), names(group))
    return spec


@lru_cache(maxsize=1024)
def _specification(definition: Definition, style: Style, stand_ins: Group) -> dict[str, Any]:
    """The same for stand-ins, made once. Altair's own checks take most of its time: the tests make them instead."""
    with debug_mode(False):
        chart = definition(style, stand_ins)
        chart.width = style.width
        spec: dict[str, Any] = chart.add_params(alt.param(name=HIDDEN, value=[])).to_dict(validate=False)
    return spec | {"config": style.config()}


def names(group: Group) -> list[str]:
    """The names of series, in their order."""
    return [series.name for series in group]


def _replaced(part: Any, old: list[str], new: list[str]) -> Any:
    """A copy in which every list that equals `old` is `new`."""
    if part == old:
        return new
    if isinstance(part, dict):
        return {name: _replaced(inner, old, new) for name, inner in part.items()}
    return [_replaced(inner, old, new) for inner in part] if isinstance(part, list) else part


def stacked(height: int, *layers: alt.Chart) -> alt.LayerChart:
    """Layers over the same axes, the last one on top."""
    return alt.LayerChart(layer=list(layers), height=height)


def rows(name: str) -> alt.Chart:
    """Marks of the rows of that name."""
    return alt.Chart(alt.NamedData(name=name))


def visible(name: str) -> alt.Chart:
    """Marks of the rows of that name whose series is not switched off."""
    return rows(name).transform_filter(VISIBLE)


def colour(style: Style, group: Group) -> alt.Color:
    """The colour of a series."""
    colours = [style.palette.series[series.look.colour] for series in group]
    return alt.Color("series:N", legend=_legend(style, group), scale=_scale(group, colours))


def fill(style: Style, group: Group) -> alt.Fill:
    """What fills the points of a series: its colour, or nothing but the ground."""
    palette = style.palette
    fills = [palette.surface if series.look.hollow else palette.series[series.look.colour] for series in group]
    return alt.Fill("series:N", legend=_legend(style, group), scale=_scale(group, fills))


def shape(style: Style, group: Group) -> alt.Shape:
    """The shape of a series' points, so that colour is never needed to tell two apart."""
    shapes = [SHAPES[series.look.shape] for series in group]
    return alt.Shape("series:N", legend=_legend(style, group), scale=_scale(group, shapes))


def looks(style: Style, group: Group) -> tuple[alt.Color, alt.Fill, alt.Shape]:
    """Everything that makes the points of a series its own."""
    return colour(style, group), fill(style, group), shape(style, group)


def dash(group: Group) -> alt.StrokeDash:
    """The lines of a series: whole, with long dashes for a variant, with short ones for a control."""
    dashes = [[3, 3] if each.look.hollow else [9, 3] if each.look.dashed else [1, 0] for each in group]
    return alt.StrokeDash("series:N", legend=None, scale=_scale(group, dashes))


def _scale(group: Group, values: list[Any]) -> alt.Scale:
    return alt.Scale(domain=names(group), range=values)


def _legend(style: Style, group: Group) -> alt.Legend | None:
    if not style.legend or len(group) < 2:
        return None
    return alt.Legend(title=None, orient="top", columns=3, symbolStrokeWidth=2)


def steps(field: str, title: str) -> alt.X:
    """Layers or epochs: whole numbers, a little air at both ends."""
    scale = alt.Scale(zero=False, nice=False, padding=16)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(grid=False, format="d", tickMinStep=1))


def log_axis(title: str) -> alt.Y:
    """Decades."""
    decade = "abs(log(datum.value) / LN10 - round(log(datum.value) / LN10)) < 1e-6"
    axis = alt.Axis(tickCount=5, labelExpr=DECADES, gridOpacity=alt.condition(decade, alt.value(1), alt.value(0)))
    return alt.Y("value:Q", title=title, scale=alt.Scale(type="log", nice=False, padding=10), axis=axis)


def plain_axis(title: str) -> alt.Y:
    """A linear axis that zooms to its numbers."""
    return alt.Y("value:Q", title=title, scale=alt.Scale(zero=False, padding=10), axis=alt.Axis(tickCount=5))


def hover(step: str, value: str, *more: alt.Tooltip) -> list[alt.Tooltip]:
    """What a pointer on a number shows: the method, where, how much, and which run."""
    return [
        alt.Tooltip("series:N", title="method"),
        alt.Tooltip(f"{step}:Q", title=step),
        alt.Tooltip("text:N", title=value),
        *more,
        alt.Tooltip("run:N", title="run"),
    ]


def threads(
    style: Style, group: Group, y: alt.Y, value: str, *, field: str = "layer", title: str = "layer"
) -> list[alt.Chart]:
    """A line per run and a point per number; the point is what a pointer finds."""
    x = steps(field, title)
    fade = alt.condition("datum.grey", alt.value(0.4), alt.value(1.0))
    tooltips = hover(field, value)
    thread = visible("points").mark_line(strokeWidth=1.8)
    line = thread.encode(x, y, colour(style, group), dash(group), opacity=fade, detail="run:N")
    size = {"layer": 56, "epoch": 18}[field] * (1.0 if style.width == "container" else 0.6)
    point = visible("points").mark_point(strokeWidth=1.4, size=size)
    return [line, point.encode(x, y, *looks(style, group), opacity=fade, tooltip=tooltips)]


def hollow(
    style: Style, name: str, y: alt.Y, tooltips: list[alt.Tooltip], *, shape: str = "circle", size: int = 130
) -> alt.Chart:
    """Points to compare with: open and grey."""
    x = steps("layer", "layer")
    size = size if style.width == "container" else size // 2
    open_points = visible(name).mark_point(
        size=size, shape=shape, filled=False, strokeWidth=1.4, stroke=style.palette.muted
    )
    marks: alt.Chart = open_points.encode(x, y, tooltip=tooltips)
    return marks


def level(style: Style) -> list[alt.Chart]:
    """Limits across the chart, each with its label."""
    at = alt.Y("value:Q")
    rule = rows("limits").mark_rule(strokeDash=[5, 4], strokeWidth=1.4, stroke=style.palette.bad)
    labels = rows("limits").mark_text(align="right", baseline="bottom", dy=-3, fill=style.palette.bad)
    return [rule.encode(at), labels.encode(at, x=alt.value("width"), text="label:N")]


def fired(style: Style, group: Group) -> list[alt.Chart]:
    """A line at the epoch at which a diagnostic first fired."""
    x = alt.X("epoch:Q")
    tooltips = [alt.Tooltip(f"{field}:N") for field in ("series", "label", "run")]
    rule = visible("fired").mark_rule(strokeWidth=1.3, opacity=0.75).encode(x, colour(style, group), tooltip=tooltips)
    lines = []
    for place, code in enumerate(HISTORY_CODES):  # one line of text each, so that they never overlap
        labels = visible(f"fired_{code}").mark_text(align="left", dx=4, baseline="top", fill=style.palette.ink)
        lines.append(labels.encode(x, y=alt.value(1 + 14 * place), text="label:N"))
    return [rule, *lines]


def zero(style: Style) -> alt.Chart:
    """The line at which credit says nothing."""
    rule: alt.Chart = rows("zero").mark_rule(stroke=style.palette.muted, strokeWidth=1).encode(alt.Y("value:Q"))
    return rule
