"""Writes docs/what-it-looks-like.md and its charts: what the audit sees, from the committed records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

from docs.generate import reproduction
from docs.generate.field import RESULTS, ROOT, STYLES, accuracy, field, margin, table

from creditscope.files import write_text
from creditscope.records.labels import counted
from creditscope.records.run import RunRecord
from creditscope.report.charts import definitions
from creditscope.report.charts.field import FieldRow, field_chart
from creditscope.report.charts.figures import rendered
from creditscope.report.charts.gallery import GalleryPanel, panel_of, side_by_side
from creditscope.report.charts.inputs import ChartInputs, ChartPlan
from creditscope.report.charts.plans import plans
from creditscope.report.charts.rows import Row
from creditscope.report.charts.series import Look, Series
from creditscope.report.charts.theme import Style
from creditscope.report.numbers import number
from creditscope.report.views import AuditView, from_runs
from creditscope.study.tables import AuditRow
from creditscope.verdict import Status

PAGE = ROOT / "docs" / "what-it-looks-like.md"
IMAGES = ROOT / "docs" / "images"
EPOCHS = (1, 3, 10, 30, 100)
DFA = {"method": "dfa", "method.index": "input"}
SEED = 42
DEMO = "MNIST-1D, `resmlp` with d = 64, 30 epochs, three seeds"
NULL_SEED = 123  # the penalised record of seed 42 holds the mean of its null and not the spread


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart with its heading, its finding and its numbers."""

    name: str
    title: str
    caption: str
    head: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    draw: Callable[[Style], dict[str, Any]]


def _views(records: Sequence[RunRecord], names: Sequence[str]) -> list[AuditView]:
    return [replace(view, label=name) for view, name in zip(from_runs(records), names, strict=True)]


def _named(inputs: ChartInputs, name: str) -> ChartPlan:
    """The plan of that name; the records must hold its numbers."""
    return next(plan for plan in plans(inputs) if plan.name == name)


# --- (a) the stream, epoch by epoch ---


def _published_runs(seed: int) -> dict[str, RunRecord]:
    """BP and DFA of the paper's main audit, trained for 100 epochs."""
    archive = reproduction.archives()["reproduction"].as_published
    wanted = {"backprop": {"method": "bp"}, "DFA": DFA}
    found = {name: archive.select("main_audit", {**where, "seed": seed}) for name, where in wanted.items()}
    return {name: next(iter(runs.records.values())) for name, runs in found.items()}


def _epoch_rows(record: RunRecord) -> list[Row]:
    kept = [row for row in record.history if row.epoch + 1 in EPOCHS]
    return [
        {"series": f"epoch {row.epoch + 1}", "run": f"{row.epoch}", "value": norm, "text": number(norm), "layer": layer}
        for row in kept
        for layer, norm in enumerate(row.hidden_norms)
    ]


def stream() -> Picture:
    """The stream's norm per layer and epoch, BP beside DFA."""
    points = {name: _epoch_rows(record) for name, record in _published_runs(SEED).items()}
    series = tuple(Series(f"epoch {epoch}", Look(place, place)) for place, epoch in enumerate(EPOCHS))
    panels = [GalleryPanel(name, definitions.stream, {"points": rows}, series) for name, rows in points.items()]
    last = {name: [row["value"] for row in rows if row["series"] == series[-1].name] for name, rows in points.items()}
    growth = {name: norms[-1] / norms[0] for name, norms in last.items()}
    caption = (
        f"After {EPOCHS[-1]} epochs the stream of DFA is {number(growth['DFA'])} times as large at its last layer as "
        f"at its first, that of backprop {number(growth['backprop'])} times."
    )
    body = [[name, row["series"], str(row["layer"]), row["text"]] for name, rows in points.items() for row in rows]
    return Picture(
        "stream",
        "The stream explodes under DFA and not under backprop",
        f"{caption} Median norm of the states per layer and epoch; CIFAR-10, seed {SEED}.",
        ("method", "epoch", "layer", "‖h‖"),
        body,
        lambda style: side_by_side(panels, style, same_axis=True),
    )


# --- (b) alignment ---


def gamma() -> Picture:
    """Γ per layer, exact and clamped, with its null: DFA, and DFA with a penalty that keeps the reference valid."""
    archive = reproduction.archives()["reproduction"]
    penalised = archive.select("penalty", {"method": "dfa", "penalty": 1e-2, "seed": NULL_SEED}).records.values()
    records = {"DFA": _published_runs(NULL_SEED)["DFA"], "DFA, penalty 0.01": next(iter(penalised))}
    panels, body, ends = [], [], {}
    for name, record in records.items():
        inputs = ChartInputs(_views([record], [name]))
        plan = _named(inputs, "gamma")
        panels.append(panel_of(plan, inputs, name))
        clamped = {row["layer"]: row["text"] for row in plan.rows["others"]}
        null = {row["layer"]: row["text"] for row in plan.rows["null"]}
        ends[name] = plan.rows["points"][-1]["text"], clamped.get(plan.rows["points"][-1]["layer"], "-")
        body += [
            [name, str(row["layer"]), row["text"], clamped.get(row["layer"], "-"), null.get(row["layer"], "-")]
            for row in plan.rows["points"]
        ]
    said = "; ".join(f"{name}: exact {exact}, clamped {clamped}" for name, (exact, clamped) in ends.items())
    return Picture(
        "gamma",
        "Γ depends on the clamp where the reference has collapsed, and not where it is sound",
        f"At the deepest layer, {said}. Filled: the exact cosine. Open circles: with norms clamped at 1e-8. Grey bars: "
        f"Γ by chance, mean ± 3 standard deviations. CIFAR-10, seed {NULL_SEED}.",
        ("run", "layer", "Γ exact", "Γ clamped", "by chance"),
        body,
        lambda style: side_by_side(panels, style),
    )


# --- (c) accuracy beside the frozen control ---


def _field_row(row: AuditRow) -> FieldRow | None:
    if row.accuracy is None or row.verdict is None:
        return None
    low, high = row.accuracy.interval or (None, None)
    frozen = None if row.control is None else row.control.mean
    return FieldRow(row.label, row.accuracy.mean, low, high, frozen, row.verdict.outcome)


def control() -> Picture:
    """Accuracy beside the frozen control, every method of the main audit."""
    audited = reproduction.archives()["reproduction"].audit_rows("main_audit")
    rows = [row for row in audited if row.spec.control == "none" and row.verdict is not None]
    shown = [entry for row in rows if (entry := _field_row(row)) is not None]
    depth = [row.findings["D3"].status for row in rows if "D3" in row.findings]
    counts = {status: depth.count(status) for status in (Status.PASS, Status.FIRES, Status.UNDECIDED)}
    caption = (
        f"Of {counted(len(depth), 'method')}, {counts[Status.PASS]} beat the same method with frozen random blocks, "
        f"{counts[Status.FIRES]} do not, and the seeds do not decide on {counts[Status.UNDECIDED]}. Hollow: the frozen "
        f"control. Bars: 95 % intervals; CIFAR-10, {rows[0].spec.epochs} epochs, three seeds, protocol `three`."
    )
    body = [
        [f"`{row.label}`", accuracy(row), accuracy(row, control=True), margin(row.findings.get("D3")), str(row.verdict)]
        for row in rows
    ]
    head = ("method", "accuracy, %", "frozen control, %", "margin, points", "verdict")
    return Picture(
        "control",
        "Accuracy says little without the frozen control",
        caption,
        head,
        body,
        lambda s: field_chart(shown, s),
    )


# --- (d), (e) the demonstration ---


def _demo() -> ChartInputs:
    """BP and DFA of the demonstration study, three seeds."""
    found = field("demo", RESULTS / "demo")
    records = [record for key, record in found.records.items() if found.runs[key].control == "none"]
    names = {"bp": "backprop", "dfa": "DFA"}
    return ChartInputs(_views(records, [names[str(record.spec["method"])] for record in records]))


def _means(plan: ChartPlan, mean: Callable[[Sequence[float]], float]) -> dict[str, list[float]]:
    """The mean over seeds of every method, per layer."""
    layers = sorted({row["layer"] for row in plan.rows["points"]})
    names = dict.fromkeys(row["series"] for row in plan.rows["points"])
    return {
        name: [
            mean([row["value"] for row in plan.rows["points"] if (row["series"], row["layer"]) == (name, layer)])
            for layer in layers
        ]
        for name in names
    }


def _numbers(*found: ChartPlan) -> list[list[str]]:
    first = found[0].rows["points"]
    columns = [{(row["run"], row["layer"]): row["text"] for row in plan.rows["points"]} for plan in found]
    return [
        [row["series"], row["run"], str(row["layer"]), *(column[row["run"], row["layer"]] for column in columns)]
        for row in first
    ]


def profile() -> Picture:
    """The linear read-out's profile over depth."""
    inputs = _demo()
    plan = _named(inputs, "D10")
    rise = {name: 100 * (values[-1] - values[1]) for name, values in _means(plan, fmean).items()}
    panel = panel_of(replace(plan, rows={"points": plan.rows["points"]}), inputs, "linear read-out, accuracy")
    caption = (
        f"After the first block a linear read-out gains {rise['backprop']:+.1f} points over depth under backprop "
        f"and {rise['DFA']:+.1f} under DFA, means over seeds. Test accuracy of a ridge read-out of every state (D10). "
        f"{DEMO}."
    )
    title = "Backprop makes the classes easier to read with every block, DFA only with the first"
    return Picture(
        "profile", title, caption, ("method", "run", "layer", "R"), _numbers(plan), lambda s: side_by_side([panel], s)
    )


def sensitivity() -> Picture:
    """Relative sensitivity beside the absolute gradient."""
    inputs = _demo()
    absolute, relative = _named(inputs, "gradient"), _named(inputs, "D11")
    ratios = []
    for plan in (absolute, relative, _named(inputs, "stream")):
        means = _means(plan, geometric_mean)
        ratios.append([bp / dfa for bp, dfa in zip(means["backprop"], means["DFA"], strict=True)])
    gradients, sensitivities, states = ratios
    panels = [
        panel_of(absolute, inputs, "gradient norm, absolute (D2)"),
        panel_of(relative, inputs, "relative sensitivity (D11)"),
    ]
    caption = (
        f"At the deepest state the gradient of DFA is {number(gradients[-1])} times smaller than that of backprop, its "
        f"relative sensitivity only {number(sensitivities[-1])} times: a gradient is counted per unit of the state, "
        f"and this state is {number(1 / states[-1])} times larger under DFA. At the embedding the relative sensitivity "
        f"is {number(sensitivities[0])} times smaller too, which units do not explain. {DEMO}."
    )
    title = "At the deepest state the gradient collapses, the relative sensitivity hardly changes"
    head = ("method", "run", "layer", "‖g‖/128", "relative sensitivity")
    return Picture("sensitivity", title, caption, head, _numbers(absolute, relative), lambda s: side_by_side(panels, s))


# --- the page ---

INTRODUCTION = """What the audit sees, in pictures. `make docs` draws them from the committed records, with the
definitions of the reports; captions are computed too. The first three come from the
[reproduction](reproduction.md). The records of that paper were made before D10 and D11 existed, so the last two
come from the study `studies/demo.toml`, trained once more for this page (MNIST-1D, `resmlp` with d = 64, 30 epochs,
three seeds; records in `results/demo/`). The [page of the reproduction](reproduction.md) has one dot per
published number, and [another page](explore.md) a scale to drag."""


def pictures() -> list[Picture]:
    """Every picture, in the order of the page."""
    return [stream(), gamma(), control(), profile(), sensitivity()]


def shown(picture: Picture) -> str:
    """The figure for each colour scheme."""
    alt = picture.title.replace("\n", " ")
    return "\n\n".join(
        f"```{{figure}} images/see-{picture.name}-{scheme}.svg\n:class: only-{scheme}\n:figclass: only-{scheme}\n"
        f":align: left\n:alt: {alt}\n\n{picture.caption}\n```"
        for scheme in STYLES
    )


def page(made: Sequence[Picture]) -> str:
    """The whole page: each picture with its finding, and its numbers behind it."""
    parts = ["# What it looks like", INTRODUCTION]
    for picture in made:
        numbers = table(picture.head, picture.rows)
        parts += [f"## {picture.title}", shown(picture)]
        parts += ["<details><summary>The numbers</summary>", numbers, "</details>"]
    return "\n\n".join(parts) + "\n"


def charts(made: Sequence[Picture]) -> dict[Path, str]:
    """The files of the pictures."""
    styles = {scheme: replace(style, width=320, height=190) for scheme, style in STYLES.items()}
    return {
        IMAGES / f"see-{picture.name}-{scheme}.svg": rendered(picture.draw(style), "svg").decode()
        for picture in made
        for scheme, style in styles.items()
    }


if __name__ == "__main__":
    every = pictures()
    for path, text in ({PAGE: page(every)} | charts(every)).items():
        print(write_text(path, text).relative_to(ROOT))
