"""Curves over epochs on a paper's page: ours, means over seeds, beside the published ones."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from creditscope.papers.archive import RunArchive
from creditscope.papers.paper import CurvePanel, CurveSection
from creditscope.papers.picture import SCHEMES
from creditscope.records.labels import counted
from creditscope.report.charts.series import COLOURS, Look, Series
from creditscope.report.charts.theme import SHAPES, Style
from creditscope.report.markdown import escaped

Points = dict[str, list[tuple[int, float]]]  # by row: epochs, counted from 1, and values


def our_points(archive: RunArchive, section: CurveSection, panel: CurvePanel) -> Points:
    """Means over the seeds that have a record; a row without the quantity is left out."""
    found: Points = {}
    for name, where in section.rows.items():
        histories = [record.history for record in archive.select(section.experiment, where).records.values()]
        means = [(rows[0].epoch + 1, fmean(map(panel.read, rows))) for rows in zip(*histories, strict=False)]
        if points := [(epoch, value) for epoch, value in means if value == value]:
            found[name] = points
    return found


def curve_chart(archive: RunArchive, section: CurveSection, panel: CurvePanel, style: Style) -> dict[str, Any] | None:
    """The Vega-Lite specification; None while no run of ours has the quantity."""
    from creditscope.report.charts.definitions import beside_published
    from creditscope.report.charts.gallery import GalleryPanel, side_by_side

    ours = our_points(archive, section, panel)
    group = tuple(  # a row has its colour and mark in every panel, whichever rows that shows
        Series(name, Look(place % COLOURS, place % len(SHAPES)))
        for place, name in enumerate(section.rows)
        if name in ours or name in panel.published
    )
    theirs = {name: list(enumerate(values, start=1)) for name, values in panel.published.items()}
    rows = {
        kind: [
            {"series": name, "run": kind, "epoch": epoch, "value": value, "text": f"{value:.1f}"}
            for name, points in found.items()
            for epoch, value in points
        ]
        for kind, found in (("points", ours), ("published", theirs))
    }
    chart = GalleryPanel(f"{panel.title}, {panel.unit}", beside_published, rows, group)
    return side_by_side([chart], style) if ours else None


def curve_section(archive: RunArchive, section: CurveSection, name: str, folder: str) -> list[str]:
    """The pictures with their captions, and the remarks, as Markdown; empty while there is no run of ours."""
    parts = [
        "\n\n".join(_figure(panel, name, folder, scheme, _caption(ours, panel)) for scheme in SCHEMES)
        for panel in section.panels
        if (ours := our_points(archive, section, panel))
    ]
    if not parts:
        return []
    return [f"## {section.heading}", *parts, "\n".join(f"- {escaped(remark)}" for remark in section.remarks(archive))]


def file_name(name: str, panel: CurvePanel, scheme: str) -> str:
    """The file of a picture."""
    return f"{name}-{panel.name}-{scheme}.svg"


def _figure(panel: CurvePanel, name: str, folder: str, scheme: str, caption: str) -> str:
    options = f":class: only-{scheme}\n:figclass: only-{scheme}\n:align: left\n:alt: {panel.title} per epoch"
    return f"```{{figure}} {folder}/{file_name(name, panel, scheme)}\n{options}\n\n{caption}\n```"


def _caption(ours: Points, panel: CurvePanel) -> str:
    """What the curves end with: ours, then the published number of the same epoch."""
    ends = []
    for name, points in ours.items():
        epoch, value = points[-1]
        theirs = panel.published.get(name, ())
        beside = f" (published {theirs[epoch - 1]:.1f})" if epoch <= len(theirs) else ""
        ends.append(f"{name} {value:.1f}{beside}")
    length = max(points[-1][0] for points in ours.values())
    return (
        f"{panel.title} after {counted(length, 'epoch')}, {panel.unit}: {escaped('; '.join(ends))}. Lines: ours, mean "
        "over seeds. Hollow: the published log, one seed."
    )
