"""Figures of audits and runs: each chart with its text and its table, and as PDF, SVG or PNG files for a paper."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from creditscope.errors import InvalidInput
from creditscope.files import atomic_write
from creditscope.report.charts.inputs import ChartInputs, ChartPlan
from creditscope.report.charts.marks import specification_of
from creditscope.report.charts.plans import plans
from creditscope.report.charts.rows import Row
from creditscope.report.charts.series import chart_name
from creditscope.report.charts.theme import PAPER, Style

Format = Literal["pdf", "svg", "png"]
SCALE = 4.0  # of a PNG: a column of 8 cm then has 400 dots per inch


@dataclass(frozen=True, slots=True)
class ChartFigure:
    """A chart with its title, its caption and its numbers."""

    name: str
    title: str
    caption: str
    spec: dict[str, Any]
    headings: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    wide: bool = False  # charts with a line per run take the width of a page


def figures(inputs: ChartInputs, style: Style) -> list[ChartFigure]:
    """Every figure that has numbers, in the order of reading."""
    return [_figure(plan, inputs, style) for plan in plans(inputs)]


def _figure(plan: ChartPlan, inputs: ChartInputs, style: Style) -> ChartFigure:
    kept = {name: rows for name, rows in plan.rows.items() if rows}
    spec = _filled(specification_of(plan.definition, style, plan.series or inputs.series), kept)
    if plan.height is not None:
        spec["height"] = plan.height
    columns = plan.columns if inputs.alone is not None else (("method", "series"), *plan.columns, ("run", "run"))
    table = tuple(tuple(str(row[name]) for _, name in columns) for row in plan.rows["points"])
    heads = tuple(heading for heading, _ in columns)
    wide = plan.height is not None and inputs.alone is None
    return ChartFigure(plan.name, plan.title, plan.caption, spec, heads, table, wide)


def _filled(spec: dict[str, Any], rows: dict[str, list[Row]]) -> dict[str, Any]:
    """The specification with its rows; layers that have none are left out."""
    layers = [layer for layer in spec["layer"] if "data" not in layer or layer["data"]["name"] in rows]
    return spec | {"layer": layers, "datasets": {name: [_finite(row) for row in kept] for name, kept in rows.items()}}


def _finite(row: Row) -> Row:
    """The row with None for numbers that JSON does not know: a diverged network has charts too."""
    return {
        name: None
        if isinstance(value, float) and not math.isfinite(value)
        else chart_name(value)
        if isinstance(value, str)
        else value
        for name, value in row.items()
    }


def write_figures(inputs: ChartInputs, folder: Path, form: str = "pdf") -> list[Path]:
    """Write every figure that has numbers, controls left out; their paths."""
    if form not in get_args(Format):
        raise InvalidInput(f"There is no format called {form!r} for figures.\nUse pdf, svg or png.")
    written = []
    for figure in figures(inputs.without_controls(), PAPER):
        path = folder / f"{figure.name.replace('_', '-')}.{form}"
        with atomic_write(path) as part:
            part.write_bytes(rendered(figure.spec, form))
        written.append(path)
    return written


def rendered(spec: dict[str, Any], form: str) -> bytes:
    """One chart as the bytes of a file."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(spec)
    if form == "svg":
        return svg.encode()
    return vl_convert.svg_to_pdf(svg) if form == "pdf" else vl_convert.svg_to_png(svg, scale=SCALE)
