"""Writes docs/field.md and its charts: the methods of the field under one recipe, from the records in results/."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

from creditscope.files import atomic_write, write_text
from creditscope.protocols import DEFAULT
from creditscope.records.labels import counted, flatten, named
from creditscope.records.run import RunRecord
from creditscope.report.charts.field import FieldRow, field_chart
from creditscope.report.charts.theme import DARK, PAPER, Style
from creditscope.report.numbers import ABSENT, number, per_cent
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store
from creditscope.study.tables import AuditRow, audit_table
from creditscope.verdict import Finding, Status

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"
RECORDS = RESULTS / "field"  # as `creditscope study export` writes them
COSTS = RESULTS / "method_costs.json"
PAGE = ROOT / "docs" / "field.md"
IMAGES = ROOT / "docs" / "images"
STUDIES = ("field_mnist1d", "field_cifar10", "field_own_recipes")
LIGHT_STYLE = replace(PAPER, width=280, font_size=11)
EXACT = "1, exact"
STYLES: dict[str, Style] = {"light": LIGHT_STYLE, "dark": replace(LIGHT_STYLE, palette=DARK)}


@dataclass(frozen=True, slots=True)
class Field:
    """A study of the field: what it declares, the records that there are, and its judged rows."""

    study: Study
    runs: Plan
    records: dict[str, RunRecord]
    rows: list[AuditRow]

    @property
    def trained(self) -> list[AuditRow]:
        """The rows of methods, controls left out; rows without a record last, the others by accuracy."""
        rows = [row for row in self.rows if row.spec.control == "none"]
        networks = list(dict.fromkeys(row.spec.network for row in rows))
        return sorted(rows, key=lambda row: (networks.index(row.spec.network), -_mean(row)))

    @property
    def judged(self) -> list[AuditRow]:
        """The rows that have a verdict."""
        return [row for row in self.trained if row.verdict is not None]

    def name(self, spec: RunSpec) -> str:
        """The method with its options; the network only where it is not the plain first one of the study."""
        settings = flatten(spec.model_dump())
        plain = spec.network == next(iter(self.runs.values())).network and not spec.network_options
        parts = ("method",) if plain else ("method", "network")
        return " on ".join(named(settings, part).replace("(", " (") for part in parts)


def field(name: str, folder: Path = RECORDS) -> Field:
    """A study with the records that a folder holds of it."""
    study = Study.read(ROOT / "studies" / f"{name}.toml")
    runs = plan(study)
    store = Store(ROOT / "nowhere", [folder])  # the committed records alone
    records = {key: store.record(key) for key in runs if store.record_path(key) is not None}
    return Field(study, runs, records, audit_table(runs, store))


def costs() -> list[dict[str, Any]]:
    """The measured cost of every rule, from the last run of benchmarks/methods.py."""
    steps: list[dict[str, Any]] = json.loads(COSTS.read_text(encoding="utf-8"))["steps"]
    return steps


def cost(spec: RunSpec) -> str:
    """The cost of a step in BP steps; absent for options and networks that were not measured."""
    full = spec.options("method")
    for step in costs():
        measured = (step["name"], step["network"]) == (spec.method, spec.network)
        if measured and all(full[name] == value for name, value in step["options"].items()):
            plain = spec.model_copy(update={"method_options": step["options"]}).options("method")
            if plain == full:
                return f"{step['measured']:.2f}"
    return ABSENT


def _mean(row: AuditRow) -> float:
    return -math.inf if row.accuracy is None else row.accuracy.mean


# --- cells, shared with the pages of the methods ---


def alignment(records: Sequence[RunRecord], suffix: str = "") -> tuple[str, list[float]]:
    """Γ per layer that is not exact, or Γ^W per block of a rule without credit at the states; medians over seeds.

    suffix  "_own" for the cosine with what the rule itself descends
    """
    name, found = _layered(records, suffix)
    exact = {layer for record in records if record.report is not None for layer in record.report.exact_layers}
    left_out = exact if name == "gamma" else set()
    layers = [layer for layer in range(min(map(len, found), default=0)) if layer not in left_out]
    return ("Γ" if name == "gamma" else "Γ^W"), [median(one[layer] for one in found) for layer in layers]


def _layered(records: Sequence[RunRecord], suffix: str) -> tuple[str, list[tuple[float, ...]]]:
    """Γ or Γ^W of every layer, from the reports that have it: a run whose auxiliary network diverged has no credit."""
    reports = [record.report for record in records if record.report is not None]
    name = "gamma" if any("gamma" in report.measures for report in reports) else "gamma_update"
    found = [report.measures[name + suffix] for report in reports if name + suffix in report.measures]
    return name, [one.per_layer for one in found if one.per_layer]


def alignment_text(records: Sequence[RunRecord], *, whole: bool = False, suffix: str = "") -> str:
    """Smallest and largest Γ over layers, or Γ of every layer."""
    symbol, values = alignment(records, suffix)
    if not values:
        exact = not suffix and any(record.report and record.report.exact_layers for record in records)
        return EXACT if exact else ABSENT
    every = whole or any(map(math.isnan, values))
    shown = values if every else sorted({min(values), max(values)})
    text = (", " if every else " to ").join(f"{round(value, 2) + 0.0:.2f}" for value in shown)
    notes = [] if symbol == "Γ" else [symbol]
    if noise := measured(records, "gamma_noise"):
        notes.append(f"noise alone {fmean(noise):.2f}")
    if (known := len(_layered(records, suffix)[1])) < len(records):
        notes.append(f"{known} of {counted(len(records), 'seed')}")
    return f"{text} ({', '.join(notes)})" if notes else text


def measured(records: Sequence[RunRecord], name: str) -> list[float]:
    """A measure of the reports, one number for each that has it: its own, or the mean over layers."""
    reports = [record.report for record in records if record.report is not None]
    found = [report.measures[name] for report in reports if name in report.measures]
    return [fmean(one.per_layer) if one.per_layer else one.value for one in found]


def accuracy(row: AuditRow, *, control: bool = False) -> str:
    """Mean ± standard deviation in per cent."""
    spread = row.control if control else row.accuracy
    if spread is None:
        return ABSENT
    return per_cent((spread.mean,)) if spread.std is None else f"{100 * spread.mean:.1f} ± {100 * spread.std:.1f}"


def margin(finding: Finding | None) -> str:
    """D3 in points with its interval."""
    if finding is None or finding.value is None:
        return ABSENT
    ends = "" if finding.interval is None else " ({:+.1f} to {:+.1f})".format(*finding.interval)
    return f"{finding.value:+.1f}{ends}"


def value(finding: Finding | None) -> str:
    """The number of a diagnostic, bold where it fires."""
    if finding is None or finding.value is None:
        return ABSENT
    text = number(finding.value)
    return f"**{text}**" if finding.status is Status.FIRES else text


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = ["| " + " | ".join(line) + " |" for line in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def filled(text: str, marks: tuple[str, str], content: str) -> str:
    """A text with other content between two marks."""
    before, begin, rest = text.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    return f"{before}{begin}{content}\n{end}{after}"


# --- the page ---


def page(fields: Sequence[Field]) -> str:
    """The whole page."""
    parts = [
        "# The field under one recipe",
        "Every rule, trained by the same recipe on the same network, with its own frozen control, and audited in full. "
        "`make docs` writes this page from the records in `results/field/`: tables, charts and conclusions. Rules and "
        f"their cards: [methods](methods.md). Verdicts are those of protocol `{DEFAULT}` over all seeds.",
        *(part for found in fields for part in _study(found)),
        NOTES,
    ]
    return "\n\n".join(parts) + "\n"


NOTES = """## How to read the tables

- **Accuracy** and **frozen** in per cent, mean ± standard deviation over seeds; *frozen* is the same rule with random
  blocks that never learn. **Margin** is D3, their difference in points with its 95 % interval over seeds and test
  images; for a single seed a standard deviation of 3 points between seeds is assumed.
- **Γ**: smallest and largest over the layers whose credit is not exact by construction, medians over seeds. Rules
  without credit at the states have Γ^W instead, the cosine of their updates to the BP gradient; alignment is not what
  they claim. A rule with another reference than BP can be right with a low Γ. *Noise alone* is the cosine that an
  unbiased estimate from as many random directions leaves: a low Γ is then no fault of the rule. A run whose feedback or
  auxiliary network diverged has no credit left to measure.
- **D1**, **D2**, **D10**: [growth of the stream](diagnostics/D1.md), [size of the reference](diagnostics/D2.md), [depth
  profile](diagnostics/D10.md), medians over seeds; bold: fires on every seed, for the same cause.
  Growth alone (D1) fails no network: the reference must have collapsed with it (`D2:tail`), so a row can pass with a
  bold D1.
- **Cost** of a training step in steps of backprop on the same network (`results/method_costs.json`, written by
  `benchmarks/methods.py`).
- **"-"**: not measured. Without a frozen control there is no margin, and the verdict rests on D10.
- One recipe is nobody's best recipe: a rule that fails here fails *in this setting*, with its default options."""


def _study(found: Field) -> list[str]:
    heading = f"## {found.study.title or found.study.name}"
    source = f"Study `studies/{found.study.name}.toml`"
    if not found.judged:
        return [heading, f"{source}: {counted(len(found.runs), 'run')}, no record yet."]
    setting = f"{source}: {_progress(found)}."
    return [heading, f"{setting} {_setting(found)}", *conclusions(found), _pictures(found), _tables(found)]


def _progress(found: Field) -> str:
    total, present = counted(len(found.runs), "run"), len(found.records)
    missing = f"{present} of {total} have a record; until the others have one, the conclusions may change"
    return f"{total}, all with a record" if present == len(found.runs) else missing


def _setting(found: Field) -> str:
    seeds = Counter(len(row.seeds) for row in found.judged)
    epochs = sorted({row.spec.epochs for row in found.judged})
    said = ", ".join(f"{counted(rows, 'row')} with {counted(count, 'seed')}" for count, rows in sorted(seeds.items()))
    return f"Epochs: {', '.join(map(str, epochs))}; {said}."


def conclusions(found: Field) -> list[str]:
    """What the records say, one sentence after the other; each is computed."""
    rows = found.judged
    sentences = (
        _outcomes(found, rows),
        _best(found, rows),
        _rejected(found, rows),
        _depth(found, rows),
        _gamma(rows, found),
        _diverged(found),
    )
    lines = [f"- {sentence}" for sentence in sentences if sentence]
    return ["**What the records say.**", "\n".join(lines)]


def _outcomes(found: Field, rows: Sequence[AuditRow]) -> str:
    counts = Counter(row.verdict.outcome for row in rows if row.verdict is not None)
    said = ", ".join(f"{counts[outcome]} {outcome}" for outcome in ("pass", "fail", "inconclusive"))
    modes = Counter(mode for row in rows if row.verdict is not None for mode in row.verdict.shown)
    shown = "; ".join(f"{mode} in {count}" for mode, count in modes.most_common())
    return f"Of {counted(len(rows), 'row')} with a verdict: {said}." + (
        f" Failure modes shown: {shown}." if shown else ""
    )


def _best(found: Field, rows: Sequence[AuditRow]) -> str:
    """The best rule that is not backprop, nor equal to it by construction, beside backprop on the same network."""
    others = [row for row in rows if not _is_backprop(found, row)]
    if not others:
        return ""
    best = max(others, key=_mean)
    beside = [row for row in rows if row.spec.method == "bp" and _network(row) == _network(best)]
    backprop = f"; backprop reaches {accuracy(beside[0])}" if beside else ""
    alone = " (one seed)" if len(best.seeds) == 1 else ""
    return f"Highest accuracy of a rule that is not backprop by construction: {_told(found, best)}{alone}{backprop}."


def _is_backprop(found: Field, row: AuditRow) -> bool:
    """Backprop itself, or a rule whose credit is exact at every state."""
    return row.spec.method == "bp" or alignment_text([found.records[seed.key] for seed in row.seeds]) == EXACT


def _rejected(found: Field, rows: Sequence[AuditRow]) -> str:
    """The highest accuracy that the audit rejects, and how many accepted ones lie below it."""
    failed = [row for row in rows if row.verdict is not None and row.verdict.outcome == "fail"]
    if not failed:
        return "The audit rejects none of them."
    highest = max(failed, key=_mean)
    same = [row for row in rows if row.verdict is not None and _network(row) == _network(highest)]
    passed = [row for row in same if row.verdict is not None and row.verdict.outcome == "pass"]
    below = sum(_mean(row) < _mean(highest) for row in passed)
    if not passed:
        compared = "no row on the same network passes"
    elif below:
        compared = f"{counted(below, 'row')} on the same network {'passes' if below == 1 else 'pass'} with less"
    else:
        compared = "every row that passes on the same network has more"
    return f"Highest accuracy that the audit rejects: {_told(found, highest)}; {compared}."


def _network(row: AuditRow) -> tuple[str, str]:
    return row.spec.network, repr(row.spec.network_options)


def _depth(found: Field, rows: Sequence[AuditRow]) -> str:
    """How often training the blocks pays."""
    by_status: dict[Status, list[str]] = {}
    for row in rows:
        if (depth := row.findings.get("D3")) is not None:
            by_status.setdefault(depth.status, []).append(found.name(row.spec))
    words = {
        Status.PASS: "it does",
        Status.FIRES: "it does not",
        Status.UNDECIDED: "it is undecided",
    }
    parts = [
        f"{words[status]} in {len(by_status[status])} ({', '.join(by_status[status])})"
        for status in words
        if status in by_status
    ]
    return f"Whether training the blocks beats the frozen control (D3): {'; '.join(parts)}." if parts else ""


def _gamma(rows: Sequence[AuditRow], found: Field) -> str:
    """Whether the mean Γ tells rows that pass from rows that fail."""
    groups: dict[str, list[float]] = {"pass": [], "fail": []}
    for row in rows:
        symbol, values = alignment([found.records[seed.key] for seed in row.seeds])
        if row.verdict is not None and row.verdict.outcome in groups and symbol == "Γ" and values:
            groups[row.verdict.outcome].append(fmean(values))
    passed, failed = groups["pass"], groups["fail"]
    if not passed or not failed:
        return ""
    ends = [" to ".join(dict.fromkeys((f"{min(group):.2f}", f"{max(group):.2f}"))) for group in (passed, failed)]
    overlap = min(passed) <= max(failed)
    told = "the ranges overlap, so Γ alone does not separate them" if overlap else "the ranges do not overlap"
    counts = [counted(len(group), "row") for group in (passed, failed)]
    return (
        f"Mean Γ over layers that are not exact: {ends[0]} in {counts[0]} that pass, {ends[1]} in {counts[1]} that "
        f"fail; {told} here. Rules without credit at the states, and exact ones, have no such Γ."
    )


def _diverged(found: Field) -> str:
    """Which runs ended before their last epoch, and why."""
    parts = [
        f"`{found.name(found.runs[key])}`{', frozen' if found.runs[key].control == 'frozen' else ''} on seed "
        f"{found.runs[key].seed} in epoch {stop.epoch + 1} of {found.runs[key].epochs}, because {stop.why}"
        for key, record in found.records.items()
        if (stop := record.diverged) is not None
    ]
    return f"Diverged, with the accuracy of the epoch in which they stopped: {'; '.join(parts)}." if parts else ""


def _told(found: Field, row: AuditRow) -> str:
    return f"`{found.name(row.spec)}` with {accuracy(row)}, {row.verdict}"


def _tables(found: Field) -> str:
    """Accuracies with their verdicts, then what was measured besides; in two tables, so that both fit a page."""
    verdicts = table(
        ("method", "accuracy", "verdict", "frozen", "margin"), [_judged(found, row) for row in found.judged]
    )
    missing = [_link(found, row) for row in found.trained if row.verdict is None]
    without = f"\n\nNo record yet: {', '.join(missing)}." if missing else ""
    others = ("method", "Γ", "D1", "D2", "D10", "cost", "seeds")
    measured = table(others, [_measured(found, row) for row in found.judged])
    return f"{verdicts}{without}\n\nWhat else was measured:\n\n{measured}"


def _link(found: Field, row: AuditRow) -> str:
    return f"[{found.name(row.spec)}](methods/{row.spec.method}.md)"


def breakable(verdict: object) -> str:
    """A verdict that a narrow column may break after a plus."""
    return str(verdict).replace("+", "+<wbr>")


def _judged(found: Field, row: AuditRow) -> list[str]:
    depth = margin(row.findings.get("D3"))
    return [_link(found, row), accuracy(row), breakable(row.verdict), accuracy(row, control=True), depth]


def _measured(found: Field, row: AuditRow) -> list[str]:
    records = [found.records[seed.key] for seed in row.seeds]
    numbers = [value(row.findings.get(code)) for code in ("D1", "D2", "D10")]
    return [_link(found, row), alignment_text(records), *numbers, cost(row.spec), str(len(row.seeds))]


# --- the charts ---


def _pictures(found: Field) -> str:
    """One figure for each colour scheme, with a caption that states the finding."""
    text = _outcomes(found, found.judged)
    caption = (
        "Test accuracy with its 95 % interval, coloured by the verdict; hollow: the same rule with frozen blocks. "
        + text
    )
    return "\n\n".join(_figure(found, scheme, caption) for scheme in STYLES)


def _figure(found: Field, scheme: str, caption: str) -> str:
    options = f":class: only-{scheme}\n:figclass: only-{scheme}\n:align: left\n:alt: {found.study.title}"
    return f"```{{figure}} images/{found.study.name}-{scheme}.svg\n{options}\n\n{caption}\n```"


def chart_rows(found: Field) -> list[FieldRow]:
    """The judged rows, as the chart shows them."""
    rows = []
    for row in found.judged:
        if row.accuracy is not None and row.verdict is not None:
            low, high = row.accuracy.interval or (None, None)
            frozen = None if row.control is None else row.control.mean
            name = found.name(row.spec)
            rows.append(FieldRow(name, row.accuracy.mean, low, high, frozen, row.verdict.outcome))
    return rows


def charts(found: Field) -> dict[Path, bytes]:
    """The pictures of a study by path; none without a record."""
    from creditscope.report.charts.figures import rendered

    rows = chart_rows(found)
    return {
        IMAGES / f"{found.study.name}-{scheme}.svg": rendered(field_chart(rows, style), "svg")
        for scheme, style in STYLES.items()
        if rows
    }


if __name__ == "__main__":
    every = [field(name) for name in STUDIES]
    print(write_text(PAGE, page(every)).relative_to(ROOT))
    for path, content in (entry for found in every for entry in charts(found).items()):
        with atomic_write(path) as part:
            part.write_bytes(content)
        print(path.relative_to(ROOT))
