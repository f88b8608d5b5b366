"""What is the credit worth, layer by layer?  Γ with its null, ρ and nudging, where an audit has measured them."""

from __future__ import annotations

from creditscope.report.charts import definitions as drawn
from creditscope.report.charts.inputs import LAYER, ChartInputs, ChartPlan
from creditscope.report.charts.rows import Row, layered, measurement
from creditscope.report.layers import collapsed
from creditscope.report.numbers import number


def gamma_plan(inputs: ChartInputs) -> ChartPlan | None:
    """Γ per layer over what chance gives."""
    points = layered(inputs.views, "gamma")
    if not points:
        return None
    grey = [shown.label for shown in inputs.views if shown.report is not None and collapsed(shown.report)]
    caption = "Cosine between credit and backprop gradient, per layer."
    null = _null(inputs) if inputs.alone is not None else []
    others = layered(inputs.views, "gamma_clamped") if inputs.alone is not None else []
    if null:
        caption += " The grey bars are what chance gives: mean ± 3 standard deviations of the null."
    if others:
        caption += " Open points are what a clamped cosine would have printed."
    if grey:
        caption += " Faded: not interpretable, the reference has collapsed."
    banner = [{"label": "not interpretable: the reference has collapsed"}] if grey and inputs.alone is not None else []
    rows = {"points": points, "others": others, "null": null, "zero": [{"value": 0}], "banner": banner}
    return ChartPlan("gamma", "Alignment Γ per layer", caption, drawn.gamma, rows, (*LAYER, ("Γ", "text")))


def _null(inputs: ChartInputs) -> list[Row]:
    """Mean ± 3 standard deviations of Γ by chance, per layer, where the audit has drawn it."""
    found = []
    for shown in inputs.views:
        centre, spread = measurement(shown, "gamma_null"), measurement(shown, "gamma_null_std")
        if centre is None or spread is None:
            continue
        for layer, (mean, std) in enumerate(zip(centre.per_layer, spread.per_layer, strict=False)):
            words = f"{number(mean)} ± {number(std)}"
            whose = {"series": shown.label, "run": shown.key or shown.title, "layer": layer, "text": words}
            found.append(whose | {"low": mean - 3 * std, "high": mean + 3 * std})
    return found


def rho_plan(inputs: ChartInputs) -> ChartPlan | None:
    """ρ per layer."""
    points = layered(inputs.views, "rho")
    if not points:
        return None
    reference, others = [], []
    if inputs.alone is not None:
        others = layered(inputs.views, "rho_absolute", kind="credit, absolute step")
        reference = layered(inputs.views, "rho_bp", kind="the backprop gradient")
        reference += layered(inputs.views, "rho_absolute_bp", kind="the backprop gradient, absolute step")
    caption = "Does credit foretell how the loss changes when a state moves a little? 1 is perfect, 0 is nothing."
    if others or reference:
        caption += " Squares: with the published absolute step. Diamonds: the backprop gradient's own score."
    rows = {"points": points, "others": others, "reference": reference, "zero": [{"value": 0}]}
    return ChartPlan("rho", "Perturbation correlation ρ", caption, drawn.rho, rows, (*LAYER, ("ρ", "text")))


def nudge_plan(inputs: ChartInputs) -> ChartPlan | None:
    """Nudging per layer."""
    points = layered(inputs.views, "nudge")
    if not points:
        return None
    others = layered(inputs.views, "nudge_absolute", kind="absolute step") if inputs.alone is not None else []
    caption = "Change of the loss after a small step of each state against its credit. Below zero the credit is useful."
    if others:
        caption += " Squares: a step that leaves the scale of the state out."
    rows = {"points": points, "others": others, "zero": [{"value": 0}]}
    return ChartPlan("nudge", "Nudging", caption, drawn.nudge, rows, (*LAYER, ("change of the loss", "text")))
