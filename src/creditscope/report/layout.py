"""Layout of pages for the terminal: styles, wrapped text, lists, the title line, lines of diagnostics, the verdict."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from pydantic import BaseModel

from creditscope.terminal import paint, printable
from creditscope.verdict import Verdict

Paint = Callable[[str, str], str]
Item = tuple[str, str]  # a mark and its sentence
OUTCOME_STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow", "control": "dim"}
NARROWEST = 70
GAP = 3  # spaces between a line and the note beside it
BESIDE = 32  # columns that a note needs to stand beside its line
INDENT = 4  # of a note below its line


def painter(colour: bool) -> Paint:
    """A function that adds ANSI styles to text, or that leaves it alone."""
    return paint if colour else lambda text, style: text


def printable_record(record: Any) -> Any:
    """A copy of a record in which every text is printable: a name or a note of a foreign file may hold anything."""
    if type(record) is str:
        return printable(record)
    if isinstance(record, dict):
        return {printable_record(key): printable_record(value) for key, value in record.items()}
    if type(record) in (tuple, list):
        return type(record)(printable_record(item) for item in record)
    if isinstance(record, BaseModel):
        names = type(record).model_fields
        return record.model_copy(update={name: printable_record(getattr(record, name)) for name in names})
    if is_dataclass(record) and not isinstance(record, type):
        values = {field.name: getattr(record, field.name) for field in fields(record) if field.init}
        return replace(record, **{name: printable_record(value) for name, value in values.items()})
    return record


def joined(sections: Iterable[str]) -> str:
    """The sections of a page with empty lines between; empty sections are left out."""
    return "\n\n".join(section for section in sections if section)


def wrapped(text: str, width: int) -> list[str]:
    """The lines of a paragraph."""
    return textwrap.wrap(text, width, break_on_hyphens=False)


def indented(text: str, width: int) -> list[str]:
    """The lines of a paragraph, two blanks to the right."""
    return [f"  {line}" for line in wrapped(text, width - 2)]


def title_line(title: str, verdict: Verdict, width: int, paint: Paint) -> str:
    """Title, a rule, and the verdict at the right end; a long title is wrapped, a long verdict is its outcome alone."""
    word = verdict.text if len(verdict.text) <= width // 2 else verdict.outcome.upper()
    *above, last = wrapped(title, width - len(word) - 4) or [""]
    rule = "─" * (width - len(last) - len(word) - 2)
    line = f"{paint(last, 'bold')} {paint(rule, 'dim')} {paint(word, OUTCOME_STYLES[verdict.outcome])}"
    return "\n".join([*(paint(part, "bold") for part in above), line])


def listed(title: str, items: Sequence[Item], width: int, paint: Paint) -> str:
    """Marked paragraphs under a heading; nothing without items."""
    if not items:
        return ""
    indent = 3 + max(len(mark) for mark, _ in items)
    lines = [paint(line, "bold") for line in wrapped(title, width)]
    for mark, text in items:
        first, *rest = wrapped(text, width - indent) or [""]
        lines.append(f"  {paint(mark.ljust(indent - 3), 'bold')} {first}")
        lines += [" " * indent + line for line in rest]
    return "\n".join(lines)


def verdict_section(heading: str, verdict: Verdict, paragraphs: Iterable[str], width: int, paint: Paint) -> str:
    """The verdict, the paragraphs that explain it, and its warnings."""
    lines = [paint(line, OUTCOME_STYLES[verdict.outcome]) for line in wrapped(f"{heading}: {verdict}", width)]
    lines += [line for text in paragraphs if text for line in indented(text, width)]
    warnings = (f"Warning: {warning}" for warning in verdict.warnings)
    lines += [paint(line, "yellow") for text in warnings for line in indented(text, width)]
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Flag:
    """The line of one diagnostic: `status` in its style, and notes beside the line or below it."""

    code: str
    title: str
    status: str
    style: str
    value: str
    limit: str
    distance: str
    notes: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of the line."""
        return (
            self.code,
            self.title,
            self.status,
            self.value,
            f"fires {self.limit}" if self.limit else "",
            self.distance,
        )


def flag_section(flags: Sequence[Flag], width: int, paint: Paint) -> str:
    """One line per diagnostic; where the distances do not fit they begin the notes."""
    rows = list(_padded([flag.cells for flag in flags]))
    used = len("  ".join(rows[0])) if rows else 0
    narrow = used > width
    indent = used + GAP if width - used - GAP >= BESIDE else INDENT
    lines = []
    for flag, cells in zip(flags, rows, strict=True):
        code, title, status, *numbers = cells[:-1] if narrow else cells
        line = "  ".join((paint(code, "bold"), title, paint(status, flag.style), *numbers))
        texts = (flag.distance, *flag.notes) if narrow else flag.notes
        notes = wrapped("; ".join(text for text in texts if text), width - indent)
        if indent > INDENT and notes:
            line += " " * GAP + paint(notes.pop(0), "dim")
        lines += [line.rstrip(), *(" " * indent + paint(note, "dim") for note in notes)]
    return "\n".join(lines)


def _padded(rows: Sequence[tuple[str, ...]]) -> Iterator[list[str]]:
    """Cells padded to the width of their column; the fourth, the value, to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = enumerate(zip(row, widths, strict=True))
        yield [cell.rjust(size) if place == 3 else cell.ljust(size) for place, (cell, size) in cells]
