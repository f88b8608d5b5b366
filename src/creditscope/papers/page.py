"""A table of a reproduction, for the terminal and as Markdown; nothing is computed here."""

from __future__ import annotations

from textwrap import fill

from rich import box
from rich.table import Table

from creditscope.papers.comparison import Outcome
from creditscope.papers.sheet import Line, Sheet
from creditscope.papers.words import counted, difference, ours, theirs
from creditscope.report.markdown import escaped
from creditscope.report.markdown import table as markdown_table
from creditscope.study.display.page import drawn

MARKS = {Outcome.DIFFERS: "DIFFERS"}
HEADINGS = ("row", "quantity", "ours", "published", "difference", "verdict")
RECORDS = "../records"  # from the folder of tables


def caption(sheet: Sheet) -> str:
    """What was asked, and what both sides were trained with."""
    published = f"published: {sheet.theirs}" if sheet.theirs else "not published"
    return f"Experiment {sheet.number}, {sheet.experiment}. Ours: {sheet.ours} (budget {sheet.budget}); {published}."


def text(sheet: Sheet, width: int) -> str:
    """The table for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    longest = max((len(word) for line in sheet.lines for word in line.row.split()), default=0)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold", min_width=longest if heading == "row" else None)
    last = ""
    for line in sheet.lines:
        row = "" if line.row == last else line.row + _absent(line)
        last = line.row
        verdict = MARKS.get(line.outcome, str(line.outcome))
        table.add_row(row, line.heading, ours(line), theirs(line.published, line.kind), difference(line), verdict)
    told = fill(caption(sheet), width)
    return "\n\n".join((sheet.title, told, drawn(table, width), f"{counted(sheet.lines)}."))


def markdown(sheet: Sheet, records: str = RECORDS) -> str:
    """The table as Markdown; every number links to the records of its runs, which lie in `records`."""
    rows = [
        (
            *(escaped(cell) for cell in (line.row, line.heading, ours(line), theirs(line.published, line.kind))),
            escaped(difference(line)),
            f"**{line.outcome}**" if line.outcome is Outcome.DIFFERS else str(line.outcome),
            escaped("; ".join(part for part in (line.note, _absent(line).strip("\n()")) if part)),
            links((*line.keys, *line.twins), records),
        )
        for line in sheet.lines
    ]
    heads = (*HEADINGS, "note", "runs")
    parts = (f"# {sheet.title}", escaped(caption(sheet)), f"{counted(sheet.lines)}.", markdown_table(heads, rows))
    return "\n\n".join(parts) + "\n"


def links(keys: tuple[str, ...], folder: str = RECORDS) -> str:
    """Keys as links to their records."""
    return " ".join(f"[{key[:6]}]({folder}/{key}.json)" for key in keys)


def _absent(line: Line) -> str:
    """Which seeds are not there yet."""
    return f"\n(seeds not run: {', '.join(map(str, line.missing))})" if line.missing and line.keys else ""
