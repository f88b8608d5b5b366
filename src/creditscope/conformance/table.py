"""The outcome of every clause as a table of text."""

from __future__ import annotations

import textwrap
from collections import Counter

from creditscope.conformance.check import Conformance
from creditscope.conformance.clause import ClauseResult, Outcome

NARROW = 60  # columns below which a line is not wrapped any further


def conformance_table(checked: Conformance, width: int = 80) -> str:
    """One row per clause: its name, the outcome, what it states; below it what was found."""
    column = 2 + max(len(result.clause) for result in checked.results)
    rows = [_row(result, column, max(width, NARROW)) for result in checked.results]
    counts = Counter(result.outcome for result in checked.results)
    verdict = "conforms" if checked.conforms else f"does not conform: {', '.join(checked.failing)}"
    if checked.conforms and not checked.complete:
        verdict += f", but {'; '.join(checked.unknown)}"
    said = ", ".join(f"{counts[outcome]} {word}" for outcome, word in _WORDS.items() if counts[outcome])
    last = textwrap.wrap(f"{checked.rule} {verdict} ({said}).", max(width, NARROW))
    return "\n".join([f"{checked.rule} on {checked.network}", "", *rows, "", *last])


_WORDS = {Outcome.HOLDS: "hold", Outcome.FAILS: "fail", Outcome.NOT_CHECKED: "not checked"}


def _row(result: ClauseResult, column: int, width: int) -> str:
    indent = " " * (column + 2 + len(Outcome.NOT_CHECKED))
    head = result.clause.ljust(column) + result.outcome.ljust(len(indent) - column)
    lines = textwrap.wrap(result.states, width, initial_indent=head, subsequent_indent=indent)
    if result.detail:
        lines += textwrap.wrap(f"-> {result.detail}", width, initial_indent=indent, subsequent_indent=indent + "   ")
    if result.outcome is Outcome.HOLDS and result.blind:
        lines += textwrap.wrap(
            f"Not seen: {result.blind}", width, initial_indent=indent, subsequent_indent=indent + "   "
        )
    return "\n".join(lines)
