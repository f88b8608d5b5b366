"""A report as a page for the terminal: the verdict in words, findings, layers, remedies, what a PASS does not mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from creditscope.provenance import Guard
from creditscope.records.labels import counted
from creditscope.records.report import SHOWN_HASH, Report
from creditscope.report.headline import headline, sentences
from creditscope.report.layers import WHY_GATED, Column, arranged, columns, measure_title, scale_bars, telling_columns
from creditscope.report.layout import (
    NARROWEST,
    OUTCOME_STYLES,
    Flag,
    Paint,
    flag_section,
    indented,
    joined,
    listed,
    painter,
    printable_record,
    title_line,
    wrapped,
)
from creditscope.report.numbers import accuracy, distance, firing_side, interval, number, value
from creditscope.report.reading import advisory, asked, left_open, not_meant, remedies, telling, the_rest
from creditscope.report.updates import explained, headings, own_reference, tensor_lines
from creditscope.terminal import one_line
from creditscope.verdict import Finding, Status

STATUS_STYLES = {Status.PASS: "green", Status.FIRES: "red", Status.SKIPPED: "dim", Status.MEASURED: "dim"}
GAP = 3  # spaces between columns


def page(report: Report, width: int = 80, colour: bool = False, *, full: bool = False) -> str:
    """The report as text of at most `width` columns; `colour` adds ANSI styles, nothing else.

    The verdict in words, the findings that fire or carry it, the columns per layer that matter, and what to do; with
    `full` every finding, every column and every other number.
    """
    report = printable_record(report)
    width, paint = max(width, NARROWEST), painter(colour)
    findings = asked(report) if full else telling(report)
    return joined(
        (
            _header(report, width, paint, full=full),
            flag_section([_flag(report, finding) for finding in findings], width, paint),
            "" if full else _rest(report, width, paint),
            _layers(report, width, paint, full=full),
            _tensors(report, width, paint) if full else "",
            _also_measured(report, width, paint) if full else "",
            _verdict(report, width, paint) if full else "",
            listed("What to do", remedies(report), width, paint),
            listed(f"What {report.verdict} does not mean", not_meant(report), width, paint),
        )
    )


def brief(report: Report) -> str:
    """Three lines: name and verdict, the weightiest sentence, and the diagnostics by their status."""
    fires = [finding.code for finding in asked(report) if finding.status is Status.FIRES]
    waits = [finding.code for finding in telling(report) if finding.status not in (Status.FIRES, Status.PASS)]
    codes = (("Fires", fires), ("Open", waits), ("Passed", [f.code for f in asked(report) if f.status is Status.PASS]))
    groups = ". ".join(f"{word}: {', '.join(group)}" for word, group in codes if group)
    return f"{one_line(report.subject.name)}: {report.verdict}\n{sentences(report)[0]}\n{groups}."


def _header(report: Report, width: int, paint: Paint, *, full: bool) -> str:
    """Name and verdict, the verdict in words, warnings, and what was measured on what."""
    title = title_line(report.subject.name, report.verdict, width, paint)
    said = [headline(report), left_open(report)]
    if str(report.verdict) not in title and not full:
        said.append(f"Verdict: {report.verdict}")
    warnings = [f"Warning: {warning}" for warning in report.verdict.warnings]
    lines = [line for text in said if text for line in wrapped(text, width)]
    lines += [paint(line, "yellow") for text in warnings for line in wrapped(text, width)]
    facts = [line for fact in _facts(report, full=full) for line in wrapped(fact, width)]
    return "\n".join([title, *lines, "", *(paint(line, "dim") for line in facts)])


def _facts(report: Report, *, full: bool) -> Iterator[str]:
    subject, origin = report.subject, report.provenance
    size = f", {subject.parameters:,} parameters" if subject.parameters else ""
    yield f"{subject.model}, {counted(subject.depth, 'block')}{size}, {origin.dtype} on {origin.device}"
    data = f"{counted(origin.images, 'image')} in {counted(origin.batches, 'batch', 'batches')}"
    yield f"{data}, protocol {report.protocol}, creditscope {origin.creditscope}"
    yield (
        f"accuracy {accuracy(report.accuracy) if report.accuracy else 'not measured'}, frozen control "
        f"{accuracy(report.control_accuracy) if report.control_accuracy else 'not given'}"
    )
    if own_reference(report):
        yield own_reference(report)
    yield f"content hash {report.content_hash[:SHOWN_HASH]}"
    yield from _guards({name: guard for name, guard in origin.guards.items() if full or not guard.passed})
    yield from subject.notes.splitlines()


def _rest(report: Report, width: int, paint: Paint) -> str:
    groups = " ".join(f"{word}: {', '.join(codes)}." for word, codes in the_rest(report))
    return "\n".join(paint(line, "dim") for line in wrapped(groups, width))


def _guards(guards: Mapping[str, Guard]) -> Iterator[str]:
    """The guards that passed in one line, each other one in a line of its own."""
    passed = [f"{name} ({guard.text})" if guard.text else name for name, guard in guards.items() if guard.passed]
    if passed:
        yield "checked: " + ", ".join(passed)
    yield from (f"guard {name}: {guard}" for name, guard in guards.items() if not guard.passed)


def _layers(report: Report, width: int, paint: Paint, *, full: bool) -> str:
    """The table per layer: the columns that matter and fit; with `full` all, in as many panels as they need."""
    panels = list(_panels(columns(report), width)) if full else _fitting(report, width)
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
        notes.append(f"in brackets: {WHY_GATED}")
    if any(any(column.past) for panel in panels for column in panel):
        notes.append("!: beyond the limit of a diagnostic that fires")
    return "\n".join([text, *(paint(line, "dim") for note in notes for line in indented(note, width))])


def _fitting(report: Report, width: int) -> list[list[Column]]:
    """One panel of the most important columns that fit, in the order of the whole table."""
    chosen = next(_panels(telling_columns(report), width), [])
    return [arranged(report, chosen)] if chosen else []


def _panels(table: Sequence[Column], width: int) -> Iterator[list[Column]]:
    panel: list[Column] = []
    room = width - 5
    for column in table:
        room -= GAP + _column_width(column)
        if room < 0 and panel:
            yield panel
            panel, room = [], width - 5 - GAP - _column_width(column)
        panel.append(column)
    if panel:
        yield panel


def _panel(panel: Sequence[Column], paint: Paint) -> list[str]:
    """Heading and one line per state, all of the same length but for styles."""
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
    """A number, then the mark of a number beyond its limit, or a blank."""
    cell = column.cells[layer]
    return ("" if cell is None else number(cell)) + ("!" if column.past[layer] else " ")


def _headed(column: Column) -> str:
    return (f"({column.heading})" if column.gated else column.heading) + " "


def _column_width(column: Column) -> int:
    return max(8, len(_headed(column)), *(len(_cell(column, layer)) for layer in range(len(column.cells))))


def _flag(report: Report, finding: Finding) -> Flag:
    own = f"limit {finding.limit.origin}" if finding.limit.calibrated is not None else ""
    notes = (interval(finding), finding.note, own, "advisory" if advisory(report, finding.code) else "")
    return Flag(
        code=finding.code,
        title=finding.title,
        status="FIRES" if finding.status is Status.FIRES else str(finding.status),
        style=STATUS_STYLES.get(finding.status, "yellow"),
        value=value(finding),
        limit=firing_side(finding),
        distance=distance(finding),
        notes=notes,
    )


def _tensors(report: Report, width: int, paint: Paint) -> str:
    """Γ^W of every stage and of every parameter tensor."""
    table = report.updates
    if table is None:
        return ""
    heads, body = headings(table), []
    for line in tensor_lines(table):
        name = line.name if line.stage else f"  {line.name}"
        body.append((name, (number(line.row.cosine), line.chance, number(line.row.own))[: len(heads)]))
    body[-1] = (body[-1][0], (*body[-1][1][:2], "")[: len(heads)])
    sizes = [max(len(head), *(len(cells[at]) for _, cells in body)) for at, head in enumerate(heads)]
    room = min(max(len(name) for name, _ in body), width - 2 - sum(GAP + size for size in sizes))
    lines = [_tensor_line("", heads, sizes, room)]
    lines += [_tensor_line(name, cells, sizes, room) for name, cells in body]
    said = [paint(line, "dim") for line in indented(explained(table), width)]
    return "\n".join([paint("Updates, tensor by tensor", "bold"), *said, *lines])


def _tensor_line(name: str, cells: Sequence[str], sizes: Sequence[int], room: int) -> str:
    """A name, cut in its middle where it does not fit, and the numbers below their headings."""
    if len(name) > room:
        name = f"{name[: room // 3]}…{name[len(name) - (room - room // 3 - 1) :]}"
    numbers = "".join(" " * GAP + cell.rjust(size) for cell, size in zip(cells, sizes, strict=True))
    return f"  {name.ljust(room)}{numbers}".rstrip()


def _also_measured(report: Report, width: int, paint: Paint) -> str:
    """Measures that are one number without a limit; D2's note has the gain already."""
    lines = [
        part
        for key, measure in report.measures.items()
        if not measure.per_layer and not (key == "gain" and "D2" in report.findings)
        for part in indented(f"{measure_title(key)} {number(measure.value)}  {measure.note}".rstrip(), width)
    ]
    return "\n".join([paint("Also measured", "bold"), *lines]) if lines else ""


def _verdict(report: Report, width: int, paint: Paint) -> str:
    """The verdict and the meaning of its modes."""
    lines = [
        paint(line, OUTCOME_STYLES[report.verdict.outcome]) for line in wrapped(f"Verdict: {report.verdict}", width)
    ]
    return "\n".join([*lines, *indented(report.verdict.why, width)])
