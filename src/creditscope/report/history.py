"""The history of a monitor as a table for the terminal: one line per epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from creditscope.records.labels import counted
from creditscope.report.layout import wrapped
from creditscope.report.numbers import value
from creditscope.verdict import Finding, Status

Epoch = tuple[int, float | None, Mapping[str, Finding]]  # its number, the accuracy, the findings
GAP = "  "
FIRES = "*"


def history_table(title: str, rows: Sequence[Epoch], firsts: Mapping[str, int], width: int = 80) -> str:
    """Epochs, accuracies and every diagnostic that was measured; in panels where they are wider than the page.

    firsts  the epoch of each diagnostic's first alarm
    """
    heading = f"{title}: {counted(len(rows), 'epoch')}"
    if not rows:
        return heading
    ids = [("epoch", *(str(epoch) for epoch, *_ in rows)), ("accuracy", *(_share(share) for _, share, _ in rows))]
    columns = [(code, *(_cell(findings.get(code)) for *_, findings in rows)) for code in measured_codes(rows)]
    panels = ["\n".join(_lines([*ids, *panel])) for panel in _panels(ids, columns, width)]
    fired = ", ".join(f"{code} at epoch {epoch}" for code, epoch in firsts.items())
    marked = any(FIRES in cell for column in columns for cell in column)
    notes = f"{FIRES} beyond its limit. " if marked else ""
    return "\n\n".join([heading, *panels, "\n".join(wrapped(f"{notes}First alarms: {fired or 'none'}.", width))])


def measured_codes(rows: Sequence[Epoch]) -> list[str]:
    """The diagnostics that have a number in any epoch."""
    return list(dict.fromkeys(code for row in rows for code, finding in row[2].items() if finding.value is not None))


def _cell(finding: Finding | None) -> str:
    if finding is None:
        return "-"
    return value(finding) + (FIRES if finding.status is Status.FIRES else " ")


def _share(accuracy: float | None) -> str:
    return "-" if accuracy is None else f"{100 * accuracy:.1f} %"


def _panels(
    ids: Sequence[tuple[str, ...]], columns: Sequence[tuple[str, ...]], width: int
) -> list[list[tuple[str, ...]]]:
    """The columns in groups that fit beside the epoch and its accuracy."""
    room = width - sum(_width(column) + len(GAP) for column in ids)
    panels: list[list[tuple[str, ...]]] = [[]]
    used = 0
    for column in columns:
        needs = _width(column) + len(GAP)
        if panels[-1] and used + needs > room:
            panels.append([])
            used = 0
        panels[-1].append(column)
        used += needs
    return panels


def _lines(columns: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [_width(column) for column in columns]
    return [
        GAP.join(cell.rjust(size) for cell, size in zip(line, widths, strict=True)).rstrip()
        for line in zip(*columns, strict=True)
    ]


def _width(column: tuple[str, ...]) -> int:
    return max(map(len, column))
