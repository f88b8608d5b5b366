"""Marks, axes and scales in Altair, without data, shared by all definitions.

A definition knows the style and the number of series and is made once for both. The names and looks of the series and
the rows (`points`, `limits`, ...) join it afterwards, so two hundred pages with the same charts cost two hundred tables
of numbers only. Channels are given as their own classes: Altair takes 30 ms to find the class of a string or a dict.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import altair as alt
from altair.utils.schemapi import debug_mode

from creditscope.report.charts.series import Group, Look, Series
from creditscope.report.charts.theme import SHAPES, Style

Definition = Callable[[Style, Group], alt.LayerChart]

DECADES = (
    "datum.label === '' ? '' : datum.value < 1e-3 || datum.value >= 1e5 "
    "? replace(format(datum.value, '.0e'), 'e+', 'e') : format(datum.value, ',~r')"
)
HISTORY_CODES = ("D1", "D2")  # the diagnostics that a run measures after every epoch
STAND_IN = Look(0, 0)
HIDDEN = "hidden"  # the series that the reader has switched off
VISIBLE = f"indexof({HIDDEN}, datum.series) < 0"


@lru_cache(maxsize=256)
def specification_of(definition: Definition, style: Style, group: Group) -> dict[str, Any]:
    """The Vega-Lite specification of a definition for these series, without its rows; shared, so not to be changed."""
    stand_ins = tuple(Series(f"series {index}", STAND_IN) for index in range(len(group)))
    scales = {name: {"domain": names(group), "range": values} for name, values in _ranges(style, group).items()}
    spec: dict[str, Any] = _dressed(
        _specification(definition, style, stand_ins), names(stand_ins), names(group), scales
    )
    return spec


@lru_cache(maxsize=256)
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


def _dressed(part: Any, old: list[str], new: list[str], scales: dict[str, Any]) -> Any:
    """A copy in which every list that equals `old` is `new`; a channel with a scale over it has its one of `scales`."""
    if part == old:
        return new
    if isinstance(part, list):
        return [_dressed(inner, old, new, scales) for inner in part]
    if not isinstance(part, dict):
        return part
    copy = {name: _dressed(inner, old, new, scales) for name, inner in part.items()}
    for name in scales.keys() & part.keys():
        if isinstance(part[name], dict) and part[name].get("scale", {}).get("domain") == old:
            copy[name]["scale"] = scales[name]
    return copy


def stacked(height: int, *layers: alt.Chart) -> alt.LayerChart:
    """Layers over the same axes, the last one on top."""
    return alt.LayerChart(layer=list(layers), height=height)


def rows(name: str) -> alt.Chart:
    """Marks of the rows of that name."""
    return alt.Chart(alt.NamedData(name=name))


def visible(name: str) -> alt.Chart:
    """Marks of the rows of that name whose series is not switched off."""
    return rows(name).transform_filter(VISIBLE)


def _ranges(style: Style, group: Group) -> dict[str, list[Any]]:
    """What every channel that tells series apart shows them as, by the channel's name in Vega-Lite.

    Points are filled with the colour or, of a control, with the ground. Lines are whole, with long dashes for a variant
    and with short ones for a control.
    """
    palette = style.palette
    colours = [palette.series[series.look.colour] for series in group]
    return {
        "color": colours,
        "fill": [palette.surface if each.look.hollow else own for each, own in zip(group, colours, strict=True)],
        "shape": [SHAPES[series.look.shape] for series in group],
        "strokeDash": [[3, 3] if each.look.hollow else [9, 3] if each.look.dashed else [1, 0] for each in group],
    }


def colour(style: Style, group: Group) -> alt.Color:
    """The colour of a series."""
    return alt.Color("series:N", legend=_legend(style, group), scale=_scale(style, group, "color"))


def fill(style: Style, group: Group) -> alt.Fill:
    """What fills the points of a series: its colour, or nothing but the ground."""
    return alt.Fill("series:N", legend=_legend(style, group), scale=_scale(style, group, "fill"))


def shape(style: Style, group: Group) -> alt.Shape:
    """The shape of a series' points, so that colour is never needed to tell two apart."""
    return alt.Shape("series:N", legend=_legend(style, group), scale=_scale(style, group, "shape"))


def looks(style: Style, group: Group) -> tuple[alt.Color, alt.Fill, alt.Shape]:
    """Everything that makes the points of a series its own."""
    return colour(style, group), fill(style, group), shape(style, group)


def dash(style: Style, group: Group) -> alt.StrokeDash:
    """The lines of a series: whole, with long dashes for a variant, with short ones for a control."""
    return alt.StrokeDash("series:N", legend=None, scale=_scale(style, group, "strokeDash"))


def _scale(style: Style, group: Group, channel: str) -> alt.Scale:
    return alt.Scale(domain=names(group), range=_ranges(style, group)[channel])


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
    fade = alt.OpacityValue(1.0, condition={"test": "datum.grey", "value": 0.4})
    tooltips = hover(field, value)
    thread = visible("points").mark_line(strokeWidth=1.8)
    line = thread.encode(x, y, colour(style, group), dash(style, group), opacity=fade, detail=alt.Detail("run:N"))
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
    at, right = alt.Y("value:Q"), alt.XValue("width")  # type: ignore[no-untyped-call]
    rule = rows("limits").mark_rule(strokeDash=[5, 4], strokeWidth=1.4, stroke=style.palette.bad)
    labels = rows("limits").mark_text(align="right", baseline="bottom", dy=-3, fill=style.palette.bad)
    return [rule.encode(at), labels.encode(at, x=right, text=alt.Text("label:N"))]


def fired(style: Style, group: Group) -> list[alt.Chart]:
    """A line at the epoch at which a diagnostic first fired."""
    x = alt.X("epoch:Q")
    tooltips = [alt.Tooltip(f"{field}:N") for field in ("series", "label", "run")]
    rule = visible("fired").mark_rule(strokeWidth=1.3, opacity=0.75).encode(x, colour(style, group), tooltip=tooltips)
    lines = []
    for place, code in enumerate(HISTORY_CODES):  # one line of text each, so that they never overlap
        labels = visible(f"fired_{code}").mark_text(align="left", dx=4, baseline="top", fill=style.palette.ink)
        y = alt.YValue(1 + 14 * place)  # type: ignore[no-untyped-call]
        lines.append(labels.encode(x, y=y, text=alt.Text("label:N")))
    return [rule, *lines]


def zero(style: Style) -> alt.Chart:
    """The line at which credit says nothing."""
    rule: alt.Chart = rows("zero").mark_rule(stroke=style.palette.muted, strokeWidth=1).encode(alt.Y("value:Q"))
    return rule
