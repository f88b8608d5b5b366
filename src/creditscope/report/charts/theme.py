"""Colours, shapes and sizes of charts, on a screen and on paper; shape alone distinguishes the series."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right")


@dataclass(frozen=True, slots=True)
class Palette:
    """The colours of a page and its charts; the series can be told apart with every common kind of colour vision."""

    ground: str
    surface: str
    ink: str
    muted: str
    line: str
    accent: str
    good: str
    bad: str
    open: str
    series: tuple[str, ...]

    def variables(self) -> dict[str, str]:
        """Name -> colour, the series numbered."""
        plain = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "series"}
        return plain | {f"series-{index}": colour for index, colour in enumerate(self.series)}


LIGHT = Palette(
    ground="#faf9f7",
    surface="#ffffff",
    ink="#1c1e21",
    muted="#5a6068",
    line="#dcdad5",
    accent="#0b5f95",
    good="#0b6b53",
    bad="#b03a06",
    open="#7a5500",
    series=("#0072b2", "#d55e00", "#008f68", "#b5588c", "#b88400", "#5b4fa2"),
)
DARK = Palette(
    ground="#131518",
    surface="#1b1e22",
    ink="#eceae6",
    muted="#a7adb5",
    line="#363b42",
    accent="#7cc4f5",
    good="#4ed0a8",
    bad="#ff9a5c",
    open="#f0c14b",
    series=("#5ab4f0", "#ff8a4c", "#3fd0a0", "#f09cc6", "#eebd45", "#b4a5ff"),
)
SCREEN = Palette(  # the style sheet says which colours these are, so that a page follows light, dark and print
    **{name: f"var(--{name})" for name in LIGHT.variables() if not name.startswith("series")},
    series=tuple(f"var(--series-{index})" for index in range(len(LIGHT.series))),
)


@dataclass(frozen=True, slots=True)
class Style:
    """How charts are drawn for one medium."""

    palette: Palette
    width: int | Literal["container"]
    height: int
    font: str
    font_size: int
    legend: bool  # in the chart; a page has one legend for all its charts

    def config(self) -> dict[str, Any]:
        """What Vega-Lite calls a theme."""
        colours, size = self.palette, self.font_size
        fonts = {"labelFont": self.font, "titleFont": self.font, "labelFontSize": size, "titleFontSize": size}
        return {
            "background": "transparent" if self.width == "container" else colours.surface,
            "font": self.font,
            "view": {"stroke": None},
            "axis": fonts
            | {
                "labelColor": colours.muted,
                "titleColor": colours.ink,
                "titleFontWeight": "normal",
                "gridColor": colours.line,
                "domainColor": colours.muted,
                "tickColor": colours.muted,
                "labelLimit": 220,
                "aria": False,
            },
            "legend": fonts | {"labelColor": colours.ink, "titleColor": colours.ink, "labelLimit": 400},
            "text": {"font": self.font, "fontSize": size, "fill": colours.ink},
            "mark": {"aria": False},  # the figure around it speaks, in sentences and with a table
        }


PAGE = Style(SCREEN, "container", 220, "system-ui, sans-serif", 12, legend=False)
PAPER = Style(LIGHT, 300, 170, "Liberation Sans, Arial, sans-serif", 9, legend=True)
