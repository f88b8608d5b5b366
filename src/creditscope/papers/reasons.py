"""Reasons why ours may differ: the schema of a paper's `reasons.json`, and the likeliest one for a row."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from creditscope.papers.published import read_data
from creditscope.records.labels import counted
from creditscope.records.record import Record

if TYPE_CHECKING:
    from creditscope.papers.paper import Paper
    from creditscope.papers.tables import ComparisonRow, ComparisonTable

OUTSET = 0.2  # of all epochs; a cosine schedule is still above 0.9 there
ABOUT = math.log10(1.5)  # decades: "about so many times" is within a factor of 1.5


class DifferenceReason(Record):
    """Why ours may differ, for these experiments, rows and quantities by name; an empty list means all of them.

    budget            only for tables of this budget
    times_too_large   only where ours is about so many times the published figure; given besides the first other reason
    """

    text: str
    experiments: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    quantities: tuple[str, ...] = ()
    budget: str = ""
    times_too_large: float | None = None

    def applies(self, table: ComparisonTable, row: ComparisonRow) -> bool:
        """Whether it names this table and row, and fits the size of the difference."""
        named = (self.experiments, table.experiment), (self.rows, row.row), (self.quantities, row.quantity)
        if self.budget not in ("", table.budget) or any(names and name not in names for names, name in named):
            return False
        if self.times_too_large is None:
            return True
        return row.difference is not None and abs(row.difference - math.log10(self.times_too_large)) < ABOUT


def read_reasons(path: Path) -> tuple[DifferenceReason, ...]:
    """Read a paper's reasons, in the order in which they are tried."""
    return read_data(path, TypeAdapter(tuple[DifferenceReason, ...]), "The reasons")


def likeliest_reason(paper: Paper, table: ComparisonTable, row: ComparisonRow) -> str:
    """Reasons that fit the size of the difference, the first other one, and the length of training if it differs."""
    applying = [reason for reason in paper.reasons if reason.applies(table, row)]
    sized = [reason.text for reason in applying if reason.times_too_large is not None]
    first = [reason.text for reason in applying if reason.times_too_large is None][:1]
    return " ".join((*sized, *first, *_lengths(paper, table, row))) or "Not known."


def _lengths(paper: Paper, table: ComparisonTable, row: ComparisonRow) -> list[str]:
    """The lengths of training, where they differ and matter: in the first epochs a longer schedule is hardly above."""
    theirs = paper.published.training(table.experiment).epochs
    if row.epochs is None or theirs is None or row.epochs == theirs or row.early:
        return []
    if row.kind == "epoch" and row.values and max(row.values) <= row.epochs * OUTSET:
        return []
    return [f"Ours: {counted(row.epochs, 'epoch')}; theirs: {counted(theirs, 'epoch')}."]
