"""The audit table of a study as text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import fill

from rich import box
from rich.console import Console
from rich.table import Table

from creditscope.report.numbers import number, per_cent, value
from creditscope.statistics.seeds import Spread
from creditscope.study.tables import AuditRow
from creditscope.verdict import Finding, Status

READABLE = 112  # columns
MARKS = {Status.PASS: "pass", Status.FIRES: "FIRES"}


def drawn(table: Table, width: int) -> str:
    """A table as plain text, at most `width` columns wide."""
    text = io.StringIO()
    Console(file=text, width=width, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")


def wrapped(sentence: str, width: int) -> str:
    """A sentence in lines of a page: at most `width` columns, and never more than a reader follows."""
    return fill(sentence, min(width, READABLE), break_long_words=False)


def table_page(title: str, rows: Sequence[AuditRow], width: int) -> str:
    """The audit table: trained methods with their verdicts, the controls, and notes on missing seeds and open D3."""
    trained = [row for row in rows if row.spec.control == "none"]
    controls = [row for row in rows if row.spec.control != "none"]
    parts = [title, *(drawn(table, width) for table in _tables(trained, width))]
    if controls:
        parts.append(drawn(_controls(controls), width))
    notes = [note for row in rows for note in _notes(row)]
    footing = (
        "Accuracy in %: mean ± std (ddof 1) over seeds, 95 % t-interval. D3 in points, 95 % paired t-interval.",
        "With a single seed the intervals (Wilson, Newcombe) reflect the test images only, not seed-to-seed variation.",
    )
    return "\n\n".join((*parts, "\n".join(wrapped(line, width) for line in (*notes, *footing))))


WHOLE = ("accuracy", "frozen", "to best frozen", "D1", "D2", "D3", "per seed", "verdict")
PARTS = (("accuracy", "frozen", "D3", "to best frozen"), ("D1", "D2", "verdict"), ("per seed",))  # of a narrow page


def _tables(rows: Sequence[AuditRow], width: int) -> list[Table]:
    """The trained methods in one table, or in three if one would not fit."""
    whole = _trained(rows, WHOLE, width)
    fits = Console(width=1000).measure(whole).maximum <= width
    return [whole] if fits else [_trained(rows, headings, width) for headings in PARTS]


def _trained(rows: Sequence[AuditRow], headings: Sequence[str], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    # A label with many options is folded, so that the numbers keep their room.
    table.add_column("method", overflow="fold", max_width=max(20, 2 * width // 5))
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in ("per seed", "verdict"))
    for row in rows:
        cells = {
            "accuracy": _accuracy(row.accuracy),
            "frozen": _accuracy(row.control),
            "to best frozen": "" if row.best_frozen is None else f"{row.best_frozen:+.1f}",
            **{code: _finding(row.findings.get(code)) for code in ("D1", "D2", "D3")},
            "per seed": "\n".join(f"{seed.seed}: {seed.verdict.text}" for seed in row.seeds),
            "verdict": "not run" if row.verdict is None else row.verdict.text,
        }
        table.add_row(row.label, *(cells[heading] for heading in headings))
    return table


def _controls(rows: Sequence[AuditRow]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False)
    for heading in ("control", "accuracy", "seeds"):
        table.add_column(heading)
    for row in rows:
        table.add_row(row.label, _accuracy(row.accuracy), ", ".join(str(seed.seed) for seed in row.seeds))
    return table


def _accuracy(spread: Spread | None) -> str:
    if spread is None:
        return "-"
    ends = "" if spread.interval is None else "\n" + " to ".join(per_cent((end,)) for end in spread.interval)
    return per_cent(spread.values) + ends


def _finding(finding: Finding | None) -> str:
    if finding is None:
        return "not audited"
    measured = "" if finding.value is None else value(finding)
    word = MARKS.get(finding.status, finding.status.value)
    ends = "" if finding.interval is None else "\n" + " to ".join(number(end) for end in finding.interval)
    return f"{measured} {word}".strip() + ends


def _notes(row: AuditRow) -> list[str]:
    """Missing seeds, and how many seeds would settle an open question."""
    notes = []
    if row.missing:
        notes.append(f"{row.label}: seeds not run: {', '.join(map(str, row.missing))}.")
    depth = row.findings.get("D3")
    if depth is not None and depth.status is Status.UNDECIDED and len(row.seeds) > 1:
        needed = f"about {row.settle} seeds per arm" if row.settle else "not even a thousand seeds"
        notes.append(f"{row.label}: D3 is undecided; {needed} would settle it, if margin and spread stay the same.")
    return notes
