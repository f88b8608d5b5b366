"""Charts of reports side by side, in one picture for a page of the site."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from creditscope.report.charts.inputs import ChartInputs, ChartPlan
from creditscope.report.charts.marks import HIDDEN, Definition, specification_of
from creditscope.report.charts.rows import Row
from creditscope.report.charts.series import Group
from creditscope.report.charts.theme import Style


@dataclass(frozen=True, slots=True)
class GalleryPanel:
    """One chart: its title, the definition that reports use, its rows by name, and its series."""

    title: str
    definition: Definition
    rows: Mapping[str, list[Row]]
    series: Group


def panel_of(plan: ChartPlan, inputs: ChartInputs, title: str = "") -> GalleryPanel:
    """The chart that a report would show."""
    return GalleryPanel(title or plan.title, plan.definition, plan.rows, plan.series or inputs.series)


def side_by_side(panels: Sequence[GalleryPanel], style: Style, *, same_axis: bool = False) -> dict[str, Any]:
    """The Vega-Lite specification of all panels; with `same_axis` they share the vertical one.

    Together they are about as wide as one chart, so that their letters can still be read on a telephone.
    """
    width = style.width if style.width == "container" else style.width // len(panels)
    charts = [_chart(panel, replace(style, width=width)) for panel in panels]
    title = {"font": style.font, "fontSize": style.font_size, "color": style.palette.ink, "anchor": "start"}
    spec: dict[str, Any] = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "hconcat": charts,
        "spacing": 24,
        "params": [{"name": HIDDEN, "value": []}],
        "config": style.config() | {"title": title},
    }
    return spec | {"resolve": {"scale": {"y": "shared"}}} if same_axis else spec


def _chart(panel: GalleryPanel, style: Style) -> dict[str, Any]:
    """One chart with its rows in place; layers that have none are left out."""
    spec = specification_of(panel.definition, style, panel.series)
    layers = []
    for layer in spec["layer"]:
        name = layer.get("data", {}).get("name")
        if name is None or panel.rows.get(name):
            layers.append(layer if name is None else layer | {"data": {"values": panel.rows[name]}})
    return {"layer": layers, "width": spec["width"], "height": spec["height"], "title": panel.title}
