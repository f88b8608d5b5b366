"""The likeliest reason for a row that differs, from the paper's list and from the lengths of training."""

from __future__ import annotations

from creditscope.papers.paper import Paper, Reason
from creditscope.papers.published import count_of
from creditscope.papers.tables import ComparisonRow, ComparisonTable

OUTSET = 0.2  # of all epochs; a cosine schedule is still above 0.9 there


def likeliest_reason(paper: Paper, table: ComparisonTable, row: ComparisonRow) -> str:
    """Conditional reasons that apply, the first other one, and the length of training where that differs."""
    applying = [reason for reason in paper.reasons if _applies(reason, table, row)]
    conditional = [reason.text for reason in applying if reason.condition is not None]
    first = [reason.text for reason in applying if reason.condition is None][:1]
    return " ".join((*conditional, *first, *_lengths(paper, table, row))) or "Not known."


def _applies(reason: Reason, table: ComparisonTable, row: ComparisonRow) -> bool:
    """Whether a reason names this table and row, and its condition holds."""
    named = (
        (reason.experiments, table.experiment),
        (reason.rows, row.row),
        (reason.quantities, row.quantity),
        ((reason.budget,) if reason.budget else (), table.budget),
    )
    fits = all(not names or name in names for names, name in named)
    return fits and (reason.condition is None or reason.condition(row))


def _lengths(paper: Paper, table: ComparisonTable, row: ComparisonRow) -> list[str]:
    """The lengths of training, where they differ and matter."""
    theirs = paper.published.training(table.experiment).epochs
    if row.epochs is None or theirs is None or row.epochs == theirs or _early(row):
        return []
    return [f"Ours: {count_of(row.epochs, 'epoch')}; theirs: {count_of(theirs, 'epoch')}."]


def _early(row: ComparisonRow) -> bool:
    """Whether a number belongs to the first epochs, where a longer cosine schedule is hardly above ours."""
    happened = row.kind == "epoch" and row.epochs is not None and bool(row.values)
    return row.early or (happened and max(row.values) <= (row.epochs or 0) * OUTSET)
