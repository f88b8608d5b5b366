"""Which charts do these audits and runs ask for?  Whatever has numbers becomes a figure: chart, words and table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from creditscope.report.charts_data import Row
from creditscope.report.charts_marks import named
from creditscope.report.charts_plans import PLANS
from creditscope.report.charts_scene import Plan, Scene
from creditscope.report.charts_theme import Style


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its words and its numbers."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]
    headings: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    wide: bool = False  # a line per run needs the width of a page


def figures(scene: Scene, style: Style) -> list[Figure]:
    """Every figure that the scene has numbers for, in the order in which they are read."""
    plans = (plan(scene) for plan in PLANS)
    return [_figure(plan, scene, style) for plan in plans if plan is not None]


def _figure(plan: Plan, scene: Scene, style: Style) -> Figure:
    spec = _filled(named(plan.definition, style, scene.names), {name: rows for name, rows in plan.rows.items() if rows})
    if plan.height is not None:
        spec["height"] = plan.height
    columns = plan.columns if scene.alone is not None else (("method", "series"), *plan.columns, ("run", "run"))
    table = tuple(tuple(str(row[name]) for _, name in columns) for row in plan.rows["points"])
    heads = tuple(heading for heading, _ in columns)
    wide = plan.height is not None and scene.alone is None
    return Figure(plan.name, plan.title, plan.caption, spec, heads, table, wide)


def _filled(spec: dict[str, Any], rows: dict[str, list[Row]]) -> dict[str, Any]:
    """The specification with its rows; layers that have none are left out."""
    layers = [layer for layer in spec["layer"] if "data" not in layer or layer["data"]["name"] in rows]
    return spec | {"layer": layers, "datasets": {name: [_finite(row) for row in kept] for name, kept in rows.items()}}


def _finite(row: Row) -> Row:
    """A row whose numbers JSON has a word for: a diverged network must not stop its own report."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in row.items()
    }
