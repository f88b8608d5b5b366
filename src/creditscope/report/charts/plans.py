"""Which charts have numbers?  One plan per chart, None where there is nothing to draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from creditscope.report.charts import definitions as drawn
from creditscope.report.charts.credit import gamma_plan, nudge_plan, rho_plan
from creditscope.report.charts.inputs import EPOCH, LAYER, ChartInputs, ChartPlan, Table, limit_row
from creditscope.report.charts.margins import decision_rows, margin_rows
from creditscope.report.charts.marks import Definition
from creditscope.report.charts.rows import Row, curves, finding, first_fired, layered, measurement
from creditscope.report.numbers import number
from creditscope.report.views import AuditView

TALLEST = 640  # pixels of a chart with a line per run


def _stream(inputs: ChartInputs) -> ChartPlan | None:
    points = layered(inputs.views, "hidden_norm", log=True)
    if not points:
        return None
    bound = finding(inputs.views, "D1")
    ceilings = _ceilings(inputs.alone) if inputs.alone is not None else []
    caption = "Median norm of the residual stream at every layer, on a logarithmic axis."
    if ceilings and bound is not None:
        caption += f" Each mark is {bound.limit.at:g} times the state before it: a point above its mark makes D1 fire."
    rows = {"points": points, "limits": ceilings}
    return ChartPlan("stream", "Scale of the stream", caption, drawn.stream, rows, (*LAYER, ("‖h‖", "text")))


def _ceilings(shown: AuditView) -> list[Row]:
    """Where D1 would fire at each layer: limit x the state before, or x the embedding in the earlier form."""
    norms, bound = measurement(shown, "hidden_norm"), finding([shown], "D1")
    if norms is None or bound is None or not bound.per_layer:
        return []
    relative = _relative(shown)
    before = [norms.per_layer[0] if relative else norm for norm in norms.per_layer[:-1]]
    ceilings = [(layer, bound.limit.at * norm) for layer, norm in enumerate(before, start=1)]
    label = f"{bound.limit.at:g} x {'the embedding' if relative else 'the state before'}"
    return [{"layer": layer, "value": at, "text": number(at), "label": label} for layer, at in ceilings if at > 0]


def _relative(shown: AuditView) -> bool:
    """Whether D1 has the earlier form, relative to layer 0."""
    bound = finding([shown], "D1")
    return bound is not None and bound.variant == "april"


def _growth(inputs: ChartInputs) -> ChartPlan | None:
    by_block = [shown for shown in inputs.views if not _relative(shown)]
    points = layered(by_block, "D1", log=True, first=1)
    bound = finding(by_block, "D1")
    if not points or bound is None:
        return None
    caption = "How many times each block multiplies the stream. Above the dashed line D1 fires."
    rows = {"points": points, "limits": [limit_row(bound)]}
    return ChartPlan("growth", "Growth across each block", caption, drawn.growth, rows, (*LAYER, ("growth", "text")))


def _gradient(inputs: ChartInputs) -> ChartPlan | None:
    points = layered(inputs.views, "D2", log=True)
    bound = finding(inputs.views, "D2")
    if not points or bound is None:
        return None
    lowest = min([bound.limit.at, *(row["value"] for row in points if row["value"] is not None)])
    caption = (
        "Median norm of the backprop gradient at every layer, as a batch of 128 shows it. In the shaded region the "
        "usual cosine compares credit with its own clamp, not with the gradient; the deepest state decides D2."
    )
    rows = {"points": points, "limits": [limit_row(bound) | {"floor": lowest / 10}]}
    return ChartPlan("gradient", "Size of the reference", caption, drawn.gradient, rows, (*LAYER, ("‖g‖/128", "text")))


def _curve(inputs: ChartInputs, name: str, title: str, caption: str, definition: Definition) -> ChartPlan | None:
    """One number of the history over epochs; D1 and D2 have limits, the accuracy has both first firings."""
    code, column, log = {"accuracy": ("", "accuracy", False), "d1": ("D1", "growth", True)}.get(
        name, ("D2", "‖g‖/128", True)
    )
    points = curves(inputs.views, name, log=log)
    if not points:
        return None
    bound = finding(inputs.views, code)
    when = [row for each in ("D1", "D2") for row in first_fired(inputs.views, each, each.lower())]
    shown = [row for row in when if not code or row["code"] == code]
    limits = [] if bound is None else [limit_row(bound)]
    told = "; ".join(row["label"] for row in shown) if inputs.alone is not None else ""
    caption += f" First past its limit: {told}." if told else ""
    rows = {"points": points, "limits": limits, "fired": shown}
    if inputs.alone is not None:
        rows |= {f"fired_{row['code']}": [row] for row in shown}
    return ChartPlan(f"{name}_curve", title, caption, definition, rows, (*EPOCH, (column, "text")))


def _accuracy_curve(inputs: ChartInputs) -> ChartPlan | None:
    caption = "Test accuracy after every epoch."
    return _curve(inputs, "accuracy", "Accuracy while training", caption, drawn.accuracy_curve)


def _growth_curve(inputs: ChartInputs) -> ChartPlan | None:
    caption = "Largest growth across a block after every epoch."
    return _curve(inputs, "d1", "Growth while training", caption, drawn.growth_curve)


def _reference_curve(inputs: ChartInputs) -> ChartPlan | None:
    caption = "Size of the reference gradient at the deepest state after every epoch."
    return _curve(inputs, "d2", "Reference while training", caption, drawn.reference_curve)


def _margin(inputs: ChartInputs) -> ChartPlan | None:
    points, bound = margin_rows(inputs.views, inputs.margins), finding(inputs.views, "D3")
    if not points or bound is None:
        return None
    caption = (
        "Accuracy above the same method with frozen random blocks, in percentage points. Right of the dashed line the "
        "trained blocks are worth something; a bar is a 95 % interval."
    )
    rows = {"points": points, "limits": [limit_row(bound)]}
    columns: Table = (("of", "kind"), ("margin", "text"), ("95 % interval", "interval"))
    height = round(min(18, TALLEST / len(points)) * len(points)) + 20
    return ChartPlan("margin", "What depth is worth", caption, drawn.margin, rows, columns, height)


def _decisions(inputs: ChartInputs) -> ChartPlan | None:
    points = decision_rows(inputs.decisions)
    if not points:
        return None
    caption = "Which way of reporting would have walked back which method: runs walked back, of how many."
    columns: Table = (("strategy", "strategy"), ("walked back", "text"))
    rows, methods = {"points": points}, len({row["series"] for row in points})
    title = "What each way of reporting catches"
    return ChartPlan("decisions", title, caption, drawn.decisions, rows, columns, 30 * methods)


PLANS: Sequence[Callable[[ChartInputs], ChartPlan | None]] = (
    _stream,
    _growth,
    _gradient,
    _margin,
    gamma_plan,
    rho_plan,
    nudge_plan,
    _accuracy_curve,
    _growth_curve,
    _reference_curve,
    _decisions,
)
