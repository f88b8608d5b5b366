"""One Altair definition per chart, the same for a page, a PDF and a PNG."""

from __future__ import annotations

from dataclasses import replace

import altair as alt

from creditscope.report.charts.marks import (
    colour,
    fired,
    hollow,
    hover,
    level,
    log_axis,
    looks,
    names,
    plain_axis,
    rows,
    stacked,
    steps,
    threads,
    visible,
    zero,
)
from creditscope.report.charts.series import Group
from creditscope.report.charts.theme import Style

MOST_NAMES = 21  # weights that a legend in a chart still has room for


def stream(style: Style, group: Group) -> alt.LayerChart:
    """Median ‖h_l‖ per layer; the ticks are the ceilings that D1 sets to each block."""
    y = log_axis("median norm of h")
    tooltips = [alt.Tooltip("label:N", title="D1"), alt.Tooltip("text:N", title="fires above")]
    ticks = rows("limits").mark_tick(thickness=2, width=28, orient="horizontal", color=style.palette.bad)
    ceilings = ticks.encode(steps("layer", "layer"), y, tooltip=tooltips)
    return stacked(style.height, ceilings, *threads(style, group, y, "‖h‖"))


def growth(style: Style, group: Group) -> alt.LayerChart:
    """Growth of the stream across each block, with the limit of D1."""
    lines = threads(style, group, log_axis("growth of the norm of h"), "growth", title="layer that the block makes")
    return stacked(style.height, *level(style), *lines)


def gradient(style: Style, group: Group) -> alt.LayerChart:
    """Median ‖g_l‖/128 per layer, with the region shaded in which the usual cosine meets its clamp."""
    shade = rows("limits").mark_rect(fill=style.palette.bad, opacity=0.13)
    region = shade.encode(alt.Y("value:Q"), alt.Y2("floor:Q"))
    lines = threads(style, group, log_axis("median norm of g / 128"), "‖g‖/128")
    return stacked(style.height, region, *level(style), *lines)


def layered_decades(style: Style, group: Group) -> alt.LayerChart:
    """Numbers of a diagnostic per layer, on a logarithmic axis, with its limit."""
    return stacked(style.height, *level(style), *threads(style, group, log_axis(""), "value"))


def layered_values(style: Style, group: Group) -> alt.LayerChart:
    """Numbers of a diagnostic per layer, on a linear axis, with its limit."""
    return stacked(style.height, *level(style), *threads(style, group, plain_axis(""), "value"))


def gamma(style: Style, group: Group) -> alt.LayerChart:
    """Γ per layer over its null band; open points are what a clamped cosine prints."""
    x, y = steps("layer", "layer"), plain_axis("Γ")
    tooltips = [alt.Tooltip("layer:Q"), alt.Tooltip("text:N", title="by chance"), alt.Tooltip("run:N", title="run")]
    band = visible("null").mark_bar(width=26, opacity=0.25, fill=style.palette.muted)
    chance = band.encode(x, alt.Y("low:Q"), alt.Y2("high:Q"), tooltip=tooltips)
    clamped = hollow(style, "others", y, hover("layer", "Γ clamped"))
    return stacked(style.height, chance, zero(style), clamped, *threads(style, group, y, "Γ"))


def rho(style: Style, group: Group) -> alt.LayerChart:
    """ρ per layer."""
    return _score(style, group, "ρ", "ρ")


def nudge(style: Style, group: Group) -> alt.LayerChart:
    """Change of the loss after a small step against the credit."""
    return _score(style, group, "change of the loss", "change of the loss")


def _score(style: Style, group: Group, title: str, value: str) -> alt.LayerChart:
    """What the credit is worth per layer; open points are other scores of the same run."""
    y = plain_axis(title)
    tooltips = hover("layer", value, alt.Tooltip("kind:N", title="of"))
    others = hollow(style, "others", y, tooltips, shape="square", size=70)
    reference = hollow(style, "reference", y, tooltips, shape="diamond", size=70)
    return stacked(style.height, zero(style), others, reference, *threads(style, group, y, value))


def accuracy_curve(style: Style, group: Group) -> alt.LayerChart:
    """Test accuracy per epoch, with the epochs at which diagnostics first fired."""
    axis = alt.Axis(format=".0%", tickCount=5)
    y = alt.Y("value:Q", title="test accuracy", axis=axis, scale=alt.Scale(zero=False, padding=10))
    return _curve(style, group, y, "accuracy")


def growth_curve(style: Style, group: Group) -> alt.LayerChart:
    """Largest growth across a block per epoch, with the limit of D1."""
    return _curve(style, group, log_axis("largest growth"), "growth")


def reference_curve(style: Style, group: Group) -> alt.LayerChart:
    """Size of the reference gradient per epoch, with the limit of D2."""
    return _curve(style, group, log_axis("norm of g / 128, last layer"), "‖g‖/128")


def _curve(style: Style, group: Group, y: alt.Y, value: str) -> alt.LayerChart:
    lines = threads(style, group, y, value, field="epoch", title="epoch")
    return stacked(style.height, *fired(style, group), *level(style), *lines)


def angle_curve(style: Style, group: Group) -> alt.LayerChart:
    """The mean angle of learnt feedback to its weights per epoch."""
    return _curve(style, group, plain_axis("mean angle of B to W, degrees"), "angle")


def beside_published(style: Style, group: Group) -> alt.LayerChart:
    """A number per epoch, and hollow points of the same colours for published ones; the title names the number."""
    x, y = steps("epoch", "epoch"), plain_axis("")
    theirs = rows("published").mark_point(filled=False, strokeWidth=1.2, size=22)
    return stacked(
        style.height,
        theirs.encode(x, y, colour(style, group)),
        *threads(style, group, y, "value", field="epoch", title="epoch"),
    )


def angles_by_weight(style: Style, group: Group) -> alt.LayerChart:
    """The angle of learnt feedback to every weight per epoch; the series are the weights of one run."""
    named = replace(style, legend=len(group) <= MOST_NAMES)
    x, y = steps("epoch", "epoch"), plain_axis("angle of B to W, degrees")
    tooltips = [
        alt.Tooltip("series:N", title="weight"),
        alt.Tooltip("epoch:Q", title="epoch"),
        alt.Tooltip("text:N", title="angle, degrees"),
    ]
    lines = visible("points").mark_line(strokeWidth=1.8).encode(x, y, colour(named, group))
    points = visible("points").mark_point(strokeWidth=1.4, size=18)
    return stacked(style.height, lines, points.encode(x, y, *looks(named, group), tooltip=tooltips))


def margin(style: Style, group: Group) -> alt.LayerChart:
    """Accuracy above the frozen control: a point and its interval per seed and over seeds."""
    x = alt.X("value:Q", title="accuracy above the frozen control, points", axis=alt.Axis(tickCount=6))
    y = alt.Y("series:N", title=None, sort=names(group), axis=alt.Axis(labelLimit=150))
    slot = alt.YOffset("slot:O")
    tooltips = [
        alt.Tooltip(f"{field}:N", title=title)
        for field, title in (
            ("series", "method"),
            ("kind", "of"),
            ("text", "margin"),
            ("interval", "95 % interval"),
            ("run", "run"),
        )
    ]
    bars = visible("points").mark_rule(strokeWidth=2.2, opacity=0.8)
    spans = bars.encode(y, slot, colour(style, group), x=alt.X("low:Q"), x2=alt.X2("high:Q"), tooltip=tooltips)
    marks = visible("points").mark_point(strokeWidth=1.4, size=60, opacity=1)
    points = marks.encode(x, y, slot, *looks(style, group), tooltip=tooltips)
    limit = rows("limits").mark_rule(strokeDash=[5, 4], strokeWidth=1.4, stroke=style.palette.bad).encode(x)
    labels = rows("limits").mark_text(align="left", baseline="bottom", dy=-3, fill=style.palette.bad)
    corner = {"x": alt.XValue(0), "y": alt.YValue(0)}  # type: ignore[no-untyped-call]
    limit_label = labels.encode(**corner, text=alt.Text("label:N"))
    return stacked(style.height, limit, limit_label, spans, points)


def decisions(style: Style, group: Group) -> alt.LayerChart:
    """Which way of reporting rejects which method, with the count in every field."""
    x = alt.X("strategy:N", title=None, sort=None, axis=alt.Axis(orient="top", labelAngle=-35, domain=False))
    y = alt.Y("series:N", title=None, sort=names(group), axis=alt.Axis(domain=False, labelLimit=150))
    tooltips = [alt.Tooltip(f"{field}:N") for field in ("series", "strategy", "text")]
    fill = alt.FillValue(style.palette.line, condition={"test": "datum.share > 0", "value": style.palette.bad})
    strength = alt.Opacity("share:Q", scale=alt.Scale(domain=[0, 1], range=[0.25, 0.45]), legend=None)
    fields = visible("points").mark_rect(stroke=style.palette.surface, strokeWidth=2)
    labels = visible("points").mark_text(fill=style.palette.ink).encode(x, y, text=alt.Text("word:N"), tooltip=tooltips)
    return stacked(style.height, fields.encode(x, y, fill=fill, opacity=strength, tooltip=tooltips), labels)
