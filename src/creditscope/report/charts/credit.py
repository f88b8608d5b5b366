"""Plans of the charts about credit: Γ with its null, ρ and nudging, layer by layer; angles of learnt feedback."""

from __future__ import annotations

from creditscope.report.charts import definitions
from creditscope.report.charts.inputs import EPOCH, LAYER, ChartInputs, ChartPlan, Table
from creditscope.report.charts.rows import Row, angles, layered, measurement
from creditscope.report.charts.series import COLOURS, Look, Series
from creditscope.report.charts.theme import SHAPES
from creditscope.report.layers import collapsed
from creditscope.report.numbers import number


def gamma_plan(inputs: ChartInputs) -> ChartPlan | None:
    """Γ per layer over the values that occur by chance."""
    points = layered(inputs.views, "gamma")
    if not points:
        return None
    faded = [view for view in inputs.views if view.report is not None and collapsed(view.report)]
    caption = "Cosine between credit and backprop gradient, per layer."
    null = _null(inputs) if inputs.alone is not None else []
    others = layered(inputs.views, "gamma_clamped") if inputs.alone is not None else []
    if null:
        caption += " Grey bars: Γ by chance, mean ± 3 standard deviations of the null."
    if others:
        caption += " Open circles: the value that a cosine with clamped norms gives."
    if others and faded:
        caption += " Faded circles: invalid, because the gradient lies below the clamp (D2)."
    rows = {"points": points, "others": others, "null": null, "zero": [{"value": 0}]}
    return ChartPlan("gamma", "Alignment Γ per layer", caption, definitions.gamma, rows, (*LAYER, ("Γ", "text")))


def _null(inputs: ChartInputs) -> list[Row]:
    """Mean ± 3 standard deviations of Γ by chance, per layer, where the audit has drawn it."""
    rows = []
    for view in inputs.views:
        centre, spread = measurement(view, "gamma_null"), measurement(view, "gamma_null_std")
        if centre is None or spread is None:
            continue
        for layer, (mean, std) in enumerate(zip(centre.per_layer, spread.per_layer, strict=False)):
            text = f"{number(mean)} ± {number(std)}"
            owner = {"series": view.label, "run": view.key or view.title, "layer": layer, "text": text}
            rows.append(owner | {"low": mean - 3 * std, "high": mean + 3 * std})
    return rows


def rho_plan(inputs: ChartInputs) -> ChartPlan | None:
    """ρ per layer, beside the score of the backprop gradient itself."""
    points = layered(inputs.views, "rho")
    if not points:
        return None
    reference, others = [], []
    if inputs.alone is not None:
        others = layered(inputs.views, "rho_absolute", kind="credit, absolute step")
        reference = layered(inputs.views, "rho_bp", kind="the backprop gradient")
        reference += layered(inputs.views, "rho_absolute_bp", kind="the backprop gradient, absolute step")
    caption = (
        "Correlation between the change of the loss that the credit predicts and the change that is measured when a "
        "state moves a little: 1 is a perfect prediction, 0 is none."
    )
    if others:
        caption += " Open squares: the same with the published absolute step."
    if reference:
        caption += " Open diamonds: the score of the backprop gradient itself."
    rows = {"points": points, "others": others, "reference": reference, "zero": [{"value": 0}]}
    return ChartPlan("rho", "Perturbation correlation ρ", caption, definitions.rho, rows, (*LAYER, ("ρ", "text")))


def nudge_plan(inputs: ChartInputs) -> ChartPlan | None:
    """Nudging per layer."""
    points = layered(inputs.views, "nudge")
    if not points:
        return None
    others = layered(inputs.views, "nudge_absolute", kind="absolute step") if inputs.alone is not None else []
    caption = "Change of the loss after a small step of each state against its credit. Useful credit lowers the loss."
    if others:
        caption += " Open squares: a step of fixed size, whatever the scale of the state."
    rows = {"points": points, "others": others, "zero": [{"value": 0}]}
    return ChartPlan("nudge", "Nudging", caption, definitions.nudge, rows, (*LAYER, ("change of the loss", "text")))


def angle_plan(inputs: ChartInputs) -> ChartPlan | None:
    """The angle of learnt feedback over the epochs: of every weight for one run, their mean for several."""
    alone = inputs.alone is not None
    points = angles(inputs.views, by_weight=alone)
    if not points:
        return None
    caption = "Angle between learnt feedback B and the weight W that it stands for, after every epoch: 0° is backprop."
    if not alone:
        caption += " Mean over the weights."
    caption += (
        " A falling angle alone does not show that B learns W: it also falls when W grows past a difference B - W that "
        "never shrinks."
    )
    rows, title, angle = {"points": points}, "Angle of learnt feedback", ("angle, degrees", "text")
    if not alone:
        return ChartPlan("angle_curve", title, caption, definitions.angle_curve, rows, (*EPOCH, angle))
    columns: Table = (*EPOCH, ("weight", "series"), angle)
    names = dict.fromkeys(row["series"] for row in points)
    looks = (Look(place % COLOURS, place % len(SHAPES)) for place in range(len(names)))
    series = tuple(Series(name, look) for name, look in zip(names, looks, strict=True))
    return ChartPlan("angle_curve", title, caption, definitions.angles_by_weight, rows, columns, series=series)
