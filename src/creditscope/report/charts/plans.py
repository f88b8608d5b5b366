"""Plans of the charts about the stream, the diagnostics and the training: one plan per chart that has numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from creditscope.registry import natural_key
from creditscope.report.charts import definitions
from creditscope.report.charts.credit import angle_plan, gamma_plan, nudge_plan, rho_plan
from creditscope.report.charts.inputs import EPOCH, LAYER, ChartInputs, ChartPlan, Table, limit_row
from creditscope.report.charts.margins import decision_rows, margin_rows
from creditscope.report.charts.marks import HISTORY_CODES, Definition
from creditscope.report.charts.rows import Row, curves, finding, first_fired, layered, measurement
from creditscope.report.numbers import number
from creditscope.report.views import AuditView
from creditscope.verdict import Status

TALLEST, LOWEST = 640, 12  # pixels of a chart with a line per run, and of a name beside it
OWN_CHART = ("D1", "D2")  # diagnostics whose numbers per layer have a chart made for them


def plans(inputs: ChartInputs) -> Iterator[ChartPlan]:
    """Every plan that has numbers, in the order of reading."""
    for plan in STREAM:
        yield from _if_any(plan(inputs))
    yield from _diagnostics(inputs)
    for plan in (gamma_plan, rho_plan, nudge_plan):
        yield from _if_any(plan(inputs))
    for curve in CURVES:
        yield from _if_any(_curve(inputs, curve))
    yield from _if_any(angle_plan(inputs))
    yield from _if_any(_decisions(inputs))


def _if_any(plan: ChartPlan | None) -> tuple[ChartPlan, ...]:
    return () if plan is None else (plan,)


def _stream(inputs: ChartInputs) -> ChartPlan | None:
    points = layered(inputs.views, "hidden_norm", log=True)
    if not points:
        return None
    bound = finding(inputs.views, "D1")
    ceilings = _ceilings(inputs.alone) if inputs.alone is not None else []
    caption = "Median norm of the residual stream at every layer, on a logarithmic axis."
    if ceilings and bound is not None:
        caption += f" Each mark is {bound.limit.at:g} times the state before it: D1 fires if a point is above its mark."
    rows = {"points": points, "limits": ceilings}
    return ChartPlan("stream", "Scale of the stream", caption, definitions.stream, rows, (*LAYER, ("‖h‖", "text")))


def _ceilings(view: AuditView) -> list[Row]:
    """The norm above which D1 fires at each layer: limit x the state before, or x the embedding in the earlier form."""
    norms, bound = measurement(view, "hidden_norm"), finding([view], "D1")
    if norms is None or bound is None or not bound.per_layer:
        return []
    relative = _relative(view)
    before = [norms.per_layer[0] if relative else norm for norm in norms.per_layer[:-1]]
    ceilings = [(layer, bound.limit.at * norm) for layer, norm in enumerate(before, start=1)]
    label = f"{bound.limit.at:g} x {'the embedding' if relative else 'the state before'}"
    return [{"layer": layer, "value": at, "text": number(at), "label": label} for layer, at in ceilings if at > 0]


def _relative(view: AuditView) -> bool:
    """Whether D1 has the earlier form, relative to layer 0."""
    bound = finding([view], "D1")
    return bound is not None and bound.variant == "april"


def _growth(inputs: ChartInputs) -> ChartPlan | None:
    by_block = [view for view in inputs.views if not _relative(view)]
    points = layered(by_block, "D1", log=True, first=1)
    bound = finding(by_block, "D1")
    if not points or bound is None:
        return None
    caption = "Factor by which each block multiplies the norm of the stream. D1 fires above the dashed line."
    rows = {"points": points, "limits": [limit_row(bound)]}
    return ChartPlan(
        "growth", "Growth across each block", caption, definitions.growth, rows, (*LAYER, ("growth", "text"))
    )


def _gradient(inputs: ChartInputs) -> ChartPlan | None:
    points = layered(inputs.views, "D2", log=True)
    bound = finding(inputs.views, "D2")
    if not points or bound is None:
        return None
    lowest = min([bound.limit.at, *(row["value"] for row in points if row["value"] is not None)])
    caption = (
        "Median norm of the backprop gradient at every layer, at the scale of a batch of 128. In the shaded region the "
        "usual cosine divides by its clamp instead of the gradient's norm. The deepest state decides D2."
    )
    rows = {"points": points, "limits": [limit_row(bound) | {"floor": lowest / 10}]}
    return ChartPlan(
        "gradient", "Size of the reference", caption, definitions.gradient, rows, (*LAYER, ("‖g‖/128", "text"))
    )


def _margin(inputs: ChartInputs) -> ChartPlan | None:
    points, bound = margin_rows(inputs.views, inputs.margins), finding(inputs.views, "D3")
    if not points or bound is None:
        return None
    caption = (
        "Accuracy above the same method with frozen random blocks, in percentage points. Training the blocks pays off "
        "to the right of the dashed line. Bars are 95 % intervals."
    )
    rows = {"points": points, "limits": [limit_row(bound)]}
    columns: Table = (("of", "kind"), ("margin", "text"), ("95 % interval", "interval"))
    names = len({point["series"] for point in points})
    height = max(round(min(18, TALLEST / len(points)) * len(points)), LOWEST * names) + 20
    return ChartPlan("margin", "Benefit of depth", caption, definitions.margin, rows, columns, height)


STREAM: Sequence[Callable[[ChartInputs], ChartPlan | None]] = (_stream, _growth, _gradient, _margin)


def _diagnostics(inputs: ChartInputs) -> Iterator[ChartPlan]:
    """A chart for every other diagnostic that has a column of numbers per layer, in order of its code."""
    reports = [view.report for view in inputs.views if view.report is not None]
    codes = {code for report in reports for code, entry in report.findings.items() if entry.column}
    for code in sorted(codes.difference(OWN_CHART), key=natural_key):
        bound = finding(inputs.views, code)
        if bound is None:
            continue
        decades = bound.limit.unit == "decades"
        first = 1 if bound.measurement is not None and bound.measurement.axis == "block" else 0
        points = layered(inputs.views, code, log=decades, first=first)
        if points:
            judged = bound.limits_layers and bound.status is not Status.MEASURED  # else the protocol sets no limit
            shown = bound.title if bound.limits_layers else bound.column
            caption = f"{shown[0].upper()}{shown[1:]} at every layer."
            caption += f" {code} fires {bound.limit.fires} {bound.limit.text}." if judged else ""
            caption += "" if bound.limits_layers else f" {code} is a difference between such numbers, in points."
            rows = {"points": points, "limits": [limit_row(bound)] if judged else []}
            definition = definitions.layered_decades if decades else definitions.layered_values
            yield ChartPlan(code, bound.title, caption, definition, rows, (*LAYER, (bound.column, "text")))


@dataclass(frozen=True, slots=True)
class Curve:
    """A field of the history over epochs; `code` is the diagnostic that judges it, empty for the accuracy."""

    field: str
    title: str
    caption: str
    column: str
    definition: Definition
    code: str = ""


CURVES = (
    Curve(
        "accuracy",
        "Accuracy during training",
        "Test accuracy after every epoch.",
        "accuracy",
        definitions.accuracy_curve,
    ),
    Curve(
        "d1",
        "Growth during training",
        "Largest growth across a block after every epoch.",
        "growth",
        definitions.growth_curve,
        "D1",
    ),
    Curve(
        "d2",
        "Reference during training",
        "Size of the reference gradient at the deepest state after every epoch.",
        "‖g‖/128",
        definitions.reference_curve,
        "D2",
    ),
)


def _curve(inputs: ChartInputs, curve: Curve) -> ChartPlan | None:
    """The curve with its limit and the epoch at which it first fired; the accuracy shows every first firing."""
    points = curves(inputs.views, curve.field, log=bool(curve.code))
    if not points:
        return None
    bound = finding(inputs.views, curve.code)
    codes = (curve.code,) if curve.code else HISTORY_CODES
    firings = [row for code in codes for row in first_fired(inputs.views, code, code.lower())]
    rows = {"points": points, "limits": [] if bound is None else [limit_row(bound)], "fired": firings}
    caption = curve.caption
    if inputs.alone is not None:
        rows |= {f"fired_{row['code']}": [row] for row in firings}
        caption += "".join(f" {row['label']}." for row in firings)
    name = f"{curve.field}_curve"
    return ChartPlan(name, curve.title, caption, curve.definition, rows, (*EPOCH, (curve.column, "text")))


def _decisions(inputs: ChartInputs) -> ChartPlan | None:
    points = decision_rows(inputs.decisions)
    if not points:
        return None
    caption = "Runs of each method that each way of reporting rejects."
    columns: Table = (("strategy", "strategy"), ("rejected", "text"))
    rows, methods = {"points": points}, len({row["series"] for row in points})
    title = "What each way of reporting catches"
    return ChartPlan("decisions", title, caption, definitions.decisions, rows, columns, 30 * methods)
