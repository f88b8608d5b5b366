"""The same charts for a paper: PDF, SVG or PNG files, from the same definitions, without a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

from creditscope.errors import InvalidInput
from creditscope.files import whole
from creditscope.report.charts import figures
from creditscope.report.charts_scene import Scene
from creditscope.report.charts_theme import PAPER

Format = Literal["pdf", "svg", "png"]
SCALE = 4.0  # of a PNG: a column of 8 cm then has 400 dots per inch


def write_figures(scene: Scene, folder: Path, form: str = "pdf") -> list[Path]:
    """Write every figure that the scene has numbers for, controls left out; their paths."""
    if form not in get_args(Format):
        raise InvalidInput(f"There is no format called {form!r} for figures.\nUse pdf, svg or png.")
    written = []
    for figure in figures(scene.without_controls(), PAPER):
        path = folder / f"{figure.name.replace('_', '-')}.{form}"
        with whole(path) as part:
            part.write_bytes(drawn(figure.spec, form))
        written.append(path)
    return written


def drawn(spec: dict[str, Any], form: str) -> bytes:
    """One chart as the bytes of a file."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(spec)
    if form == "svg":
        return svg.encode()
    return vl_convert.svg_to_pdf(svg) if form == "pdf" else vl_convert.svg_to_png(svg, scale=SCALE)
