"""A report as a page for the terminal: header, layers, flags, verdict, remedies, and what a PASS does not mean."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence

from creditscope.provenance import Guard
from creditscope.records.report import Report
from creditscope.report.layers import Column, collapsed, columns, scale_bars
from creditscope.report.numbers import accuracy, count, distance, interval, limit, number, value
from creditscope.report.reading import advisory, asked, left_open, not_meant, remedies
from creditscope.verdict import Finding, Status

Paint = Callable[[str, str], str]
STYLES = {"bold": "1", "dim": "2", "red": "1;31", "green": "1;32", "yellow": "1;33"}
STATUS_STYLES = {Status.PASS: "green", Status.FIRES: "red", Status.SKIPPED: "dim"}
OUTCOME_STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow"}
GAP = 3  # spaces between columns
NARROWEST = 70
BESIDE = 32  # columns that notes need to stand beside the numbers


def page(report: Report, width: int = 80, colour: bool = False) -> str:
    """The whole report as text of at most `width` columns; `colour` adds ANSI styles, nothing else."""
    width = max(width, NARROWEST)
    paint: Paint = _ansi if colour else _plain
    sections = (
        _header(report, width, paint),
        _layers(report, width, paint),
        _flags(report, width, paint),
        _also_measured(report, width, paint),
        _verdict(report, width, paint),
        _listed("What to do", remedies(report), width, paint),
        _listed(f"What {report.verdict} does not mean", not_meant(report), width, paint),
    )
    return "\n\n".join(section for section in sections if section)


def _header(report: Report, width: int, paint: Paint) -> str:
    subject, origin = report.subject, report.provenance
    verdict = str(report.verdict)
    if len(verdict) > width // 2:
        verdict = report.verdict.outcome.upper()
    name = textwrap.shorten(subject.name, max(8, width - len(verdict) - 4), placeholder="...")
    rule = "─" * (width - len(name) - len(verdict) - 2)
    lines = [f"{paint(name, 'bold')} {paint(rule, 'dim')} {paint(verdict, OUTCOME_STYLES[report.verdict.outcome])}"]
    size = f", {subject.parameters:,} parameters" if subject.parameters else ""
    data = f"{count(origin.images, 'image')} in {count(origin.batches, 'batch', 'batches')}"
    facts = [
        f"{subject.model}, {count(subject.depth, 'block')}{size}, {origin.dtype} on {origin.device}",
        f"{data}, protocol {report.protocol}, creditscope {origin.creditscope}",
        f"accuracy {accuracy(report.accuracy) if report.accuracy else 'not measured'}, frozen control "
        f"{accuracy(report.control_accuracy) if report.control_accuracy else 'not given'}",
        *_guards(origin.guards),
        *subject.notes.splitlines(),
    ]
    lines += [line for fact in facts for line in _wrapped(fact, width)]
    return "\n".join(lines)


def _guards(guards: Mapping[str, Guard]) -> Iterator[str]:
    """The guards that passed in one line, each other one in a line of its own."""
    passed = [f"{name} ({guard.text})" if guard.text else name for name, guard in guards.items() if guard.passed]
    if passed:
        yield "checked: " + ", ".join(passed)
    yield from (f"guard {name}: {guard}" for name, guard in guards.items() if not guard.passed)


def _layers(report: Report, width: int, paint: Paint) -> str:
    """The table per layer, in as many panels as the width asks for."""
    panels = list(_panels(columns(report), width))
    if not panels:
        return ""
    drawn = [_panel(panel, paint) for panel in panels]
    used = 5 + sum(GAP + _column_width(column) for column in panels[-1])
    bars = scale_bars(report, min(width - used - GAP, 36))
    if bars and len("log ‖h‖") <= width - used - GAP:
        drawn[-1] = [
            (line + " " * GAP + paint(bar, "dim")).rstrip()
            for line, bar in zip(drawn[-1], ["log ‖h‖", *bars], strict=True)
        ]
    text = "\n\n".join("\n".join(line.rstrip() for line in lines) for lines in drawn)
    notes = []
    if any(column.gated for panel in panels for column in panel):
        notes.append("(Γ): not interpretable, the reference has collapsed")
    if any(any(column.past) for panel in panels for column in panel):
        notes.append("!: past the limit of a diagnostic that fires")
    return "\n".join([text, *(paint(f"  {line}", "dim") for note in notes for line in _wrapped(note, width - 2))])


def _panels(found: Sequence[Column], width: int) -> Iterator[list[Column]]:
    panel: list[Column] = []
    room = width - 5
    for column in found:
        room -= GAP + _column_width(column)
        if room < 0 and panel:
            yield panel
            panel, room = [], width - 5 - GAP - _column_width(column)
        panel.append(column)
    if panel:
        yield panel


def _panel(panel: Sequence[Column], paint: Paint) -> list[str]:
    """Heading and one line per state; every line but for its styles has the same length."""
    gap = " " * GAP
    heading = "layer" + "".join(gap + _headed(column).rjust(_column_width(column)) for column in panel)
    lines = [paint(heading.rstrip(), "bold") + heading[len(heading.rstrip()) :]]
    for layer in range(len(panel[0].cells)):
        line = f"{layer:>5}"
        for column in panel:
            text = _cell(column, layer).rjust(_column_width(column))
            line += gap + paint(text, "red" if column.past[layer] else "dim" if column.gated else "")
        lines.append(line)
    return lines


def _cell(column: Column, layer: int) -> str:
    """A number with room for the mark of a limit behind it."""
    cell = column.cells[layer]
    return ("" if cell is None and column.key[0] == "D" else number(cell)) + ("!" if column.past[layer] else " ")


def _headed(column: Column) -> str:
    return (f"({column.heading})" if column.gated else column.heading) + " "


def _column_width(column: Column) -> int:
    return max(8, len(_headed(column)), *(len(_cell(column, layer)) for layer in range(len(column.cells))))


def _flags(report: Report, width: int, paint: Paint) -> str:
    """One line per diagnostic: status, value, limit and the distance to it; its note beside it or below."""
    findings = asked(report)
    rows = list(_aligned([_row(finding) for finding in findings]))
    used = len("  ".join(rows[0])) if rows else 0
    narrow = used > width  # the distances then move into the notes
    if narrow:
        rows = [row[:-1] for row in rows]
    indent = used + GAP if width - used - GAP >= BESIDE else 4
    lines = []
    for finding, (code, title, word, *numbers) in zip(findings, rows, strict=True):
        styled = paint(word, STATUS_STYLES.get(finding.status, "yellow"))
        line = "  ".join((paint(code, "bold"), title, styled, *numbers))
        ahead = distance(finding) if narrow else ""
        notes = _wrapped(_note(finding, ahead, advisory(report, finding.code)), width - indent)
        if indent > 4 and notes:
            line += " " * GAP + paint(notes.pop(0), "dim")
        lines += [line.rstrip(), *(" " * indent + paint(note, "dim") for note in notes)]
    return "\n".join(lines)


def _row(finding: Finding) -> tuple[str, ...]:
    fires = f"fires {limit(finding.limit)}"
    return finding.code, finding.title, _word(finding), value(finding), fires, distance(finding)


def _word(finding: Finding) -> str:
    return "FIRES" if finding.status is Status.FIRES else str(finding.status)


def _note(finding: Finding, ahead: str, is_advisory: bool) -> str:
    own = f"limit {finding.limit.origin}" if finding.limit.calibrated is not None else ""
    parts = (ahead, interval(finding), finding.note, own, "advisory" if is_advisory else "")
    return "; ".join(part for part in parts if part)


def _also_measured(report: Report, width: int, paint: Paint) -> str:
    """Measures that are one number without a limit; D2's note has the gain already."""
    lines = [
        part
        for key, measure in report.measures.items()
        if not measure.per_layer and not (key == "gain" and "D2" in report.findings)
        for part in _wrapped(f"{key.replace('_', ' ')} {number(measure.value)}  {measure.note}".rstrip(), width - 2)
    ]
    return "\n".join([paint("Also measured", "bold"), *(f"  {line}" for line in lines)]) if lines else ""


def _verdict(report: Report, width: int, paint: Paint) -> str:
    style = OUTCOME_STYLES[report.verdict.outcome]
    lines = [paint(line, style) for line in _wrapped(f"Verdict: {report.verdict}", width)]
    lines += [f"  {line}" for line in _wrapped(report.verdict.why, width - 2)]
    open_modes = left_open(report)
    if open_modes:
        lines += [f"  {line}" for line in _wrapped(open_modes, width - 2)]
    for warning in report.verdict.warnings:
        lines += [paint(f"  {line}", "yellow") for line in _wrapped(f"Warning: {warning}", width - 2)]
    if collapsed(report) and "gamma" in report.measures:
        lines.append(f"  {paint('Γ is not interpretable: the reference has collapsed.', 'yellow')}")
    return "\n".join(lines)


def _listed(title: str, items: Sequence[tuple[str, str]], width: int, paint: Paint) -> str:
    """Marked paragraphs under a heading; nothing at all without items."""
    if not items:
        return ""
    indent = 3 + max(len(mark) for mark, _ in items)
    lines = [paint(line, "bold") for line in _wrapped(title, width)]
    for mark, text in items:
        first, *rest = _wrapped(text, width - indent) or [""]
        lines.append(f"  {paint(mark.ljust(indent - 3), 'bold')} {first}")
        lines += [" " * indent + line for line in rest]
    return "\n".join(lines)


def _aligned(rows: Sequence[tuple[str, ...]]) -> Iterator[list[str]]:
    """Cells padded to their column's width; the fourth, the value, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield [
            cell.rjust(size) if index == 3 else cell.ljust(size)
            for index, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _plain(text: str, style: str) -> str:
    return text


def _ansi(text: str, style: str) -> str:
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text.strip() else text
