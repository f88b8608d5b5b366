"""Tables, findings and facts of a page, as text that the template only arranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from creditscope.records.labels import counted
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.report.layers import WHY_GATED, Column, arranged, columns, measure_title, telling_columns
from creditscope.report.numbers import ABSENT, accuracy, distance, firing_side, interval, number, value
from creditscope.report.reading import advisory
from creditscope.report.updates import explained, headings, tensor_lines
from creditscope.report.views import AuditView
from creditscope.verdict import Finding

ICONS = {"pass": "✓", "fires": "▲", "undecided": "◐", "undefined": "∅", "skipped": "–", "measured": "·"}
TONES = {"pass": "good", "fires": "bad", "skipped": "grey", "measured": "grey"}
OUTCOMES = {"pass": ("✓", "good"), "fail": ("✗", "bad"), "inconclusive": ("?", "open"), "control": ("·", "grey")}


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a table; `order` is what it is sorted by, the text itself if there is none."""

    text: str
    order: float | None = None
    tone: str = ""
    mark: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class PageTable:
    """A table with its title and caption; columns can be sorted."""

    name: str
    title: str
    caption: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Which columns hold numbers."""
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.headings)
        return tuple(any(cell.order is not None for cell in column) for column in columns)


@dataclass(frozen=True, slots=True)
class FindingView:
    """A finding with the texts of its line."""

    finding: Finding
    icon: str
    tone: str
    value: str
    limit: str
    distance: str
    interval: str
    advisory: bool


def finding_views(report: Report, findings: Iterable[Finding]) -> list[FindingView]:
    """Findings with the texts of their lines."""
    return [
        FindingView(
            finding,
            ICONS[finding.status],
            TONES.get(finding.status, "open") if not _soft(finding, report) else "open",
            value(finding),
            firing_side(finding),
            distance(finding),
            interval(finding),
            advisory(report, finding.code),
        )
        for finding in findings
    ]


def _soft(finding: Finding, report: Report) -> bool:
    """Whether an advisory diagnostic fires: it calls for attention, but fails nothing."""
    return finding.status == "fires" and advisory(report, finding.code)


def verdict_cell(view: AuditView) -> Cell:
    """A verdict with its mark."""
    if view.report is None:
        return Cell(view.verdict, mark="–")
    mark, tone = OUTCOMES[view.report.verdict.outcome]
    return Cell(view.verdict, tone=tone, mark=mark)


def layer_tables(report: Report) -> tuple[PageTable | None, PageTable | None]:
    """The numbers per layer that matter, as the terminal page chooses them, and all of them where there are more."""
    every = columns(report)
    chosen = arranged(report, telling_columns(report)) or every
    short = _layer_table(report, chosen, "layers", "Layer by layer") if chosen else None
    more = len(chosen) < len(every)
    return short, _layer_table(report, every, "all-layers", "Every number per layer") if more else None


def _layer_table(report: Report, layered: Sequence[Column], name: str, title: str) -> PageTable:
    heads = ("layer", *(f"({column.heading})" if column.gated else column.heading for column in layered))
    rows = []
    for layer in range(report.subject.depth + 1):
        cells = [Cell(str(layer), layer)]
        for column in layered:
            cell, past = column.cells[layer], column.past[layer]
            tone = "grey" if column.gated else "bad" if past else ""
            cells.append(Cell(number(cell) if cell is not None else "", cell, tone, "▲" if past else ""))
        rows.append(tuple(cells))
    notes = ["The number of a block is in the row of the state that it produces."]
    if any(any(column.past) for column in layered):
        notes.append("▲ beyond the limit of a diagnostic that fires.")
    if any(column.gated for column in layered):
        notes.append(f"In brackets: {WHY_GATED}.")
    return PageTable(name, title, " ".join(notes), heads, tuple(rows))


def tensor_table(report: Report) -> PageTable | None:
    """Γ^W of every stage and of every parameter tensor; None where no updates were compared."""
    table = report.updates
    if table is None:
        return None
    heads, rows = headings(table), []
    for line in tensor_lines(table):
        own = [] if len(heads) < 3 else [Cell("" if line.row.own is None else number(line.row.own), line.row.own)]
        first = Cell(line.name, tone="" if line.stage else "part")
        rows.append((first, Cell(number(line.row.cosine), line.row.cosine), Cell(line.chance, line.row.null), *own))
    return PageTable("tensors", "Updates, tensor by tensor", explained(table), ("parameter", *heads), tuple(rows))


def measure_table(report: Report) -> PageTable:
    """Every measure without a limit, with its description."""
    rows = tuple(
        (Cell(measure_title(name)), Cell(number(measure.value), measure.value), Cell(measure.note))
        for name, measure in report.measures.items()
    )
    heads = ("measure", "value", "description")
    return PageTable("measures", "Also measured", "Numbers without a limit.", heads, rows)


def facts(view: AuditView) -> Iterator[tuple[str, str]]:
    """The origin of the numbers."""
    report, run = view.report, view.run
    if report is not None:
        yield from _audited(report)
    if run is not None:
        yield from _trained(run)


def _audited(report: Report) -> Iterator[tuple[str, str]]:
    subject, origin = report.subject, report.provenance
    size = f", {subject.parameters:,} parameters" if subject.parameters else ""
    yield "Network", f"{subject.model}, {counted(subject.depth, 'block')}{size}"
    yield "Accuracy", accuracy(report.accuracy) if report.accuracy else "not measured"
    yield "Frozen control", accuracy(report.control_accuracy) if report.control_accuracy else "not given"
    yield "Measured on", f"{counted(origin.images, 'image')} in {counted(origin.batches, 'batch', 'batches')}"
    yield "Protocol", report.protocol
    yield "Precision and device", f"{origin.dtype} on {origin.device}"
    yield "Seeds", ", ".join(map(str, origin.seeds)) or ABSENT
    for name, guard in origin.guards.items():
        yield f"Guard: {name}", str(guard)
    yield "Software", f"creditscope {origin.creditscope}, torch {origin.torch}, Python {origin.python}"
    if origin.commit:
        yield "Commit", origin.commit
    if origin.created:
        yield "Audited", origin.created
    yield "Content hash", report.content_hash


def _trained(run: RunRecord) -> Iterator[tuple[str, str]]:
    epochs = sum(row.epoch >= 0 for row in run.history)  # the network before training has a row of its own
    yield "Run key", run.key or ABSENT
    yield "Trained", f"{counted(epochs, 'epoch')} on {run.device}, {number(run.timings.get('seconds'))} s"
    if run.diverged is not None:
        yield "Diverged", f"in epoch {run.diverged.epoch + 1}: {run.diverged.why}"
    if run.data_checksum:
        yield "Data checksum", run.data_checksum
