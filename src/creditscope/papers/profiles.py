"""Which layers carry DFA's alignment while the reference is still valid?

The long runs tell it in their history, up to the last valid epoch; the short ones are audited before it collapses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile

from creditscope.diagnostics import diagnostics
from creditscope.papers.book import Book
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.statistics.layers import mean
from creditscope.verdict import Finding, Measurement, Status

STUDY = "early_epochs"


def lengths(book: Book) -> tuple[int, int]:
    """Epochs of the short and of the long runs."""
    found = [spec.epochs for spec in book.plan(STUDY).values()]
    return min(found), max(found)


def early(book: Book, index: str, epochs: int) -> Iterator[tuple[str, RunSpec, RunRecord]]:
    """Key, settings and record of DFA's runs with this index and length."""
    found = book.find(STUDY, {"method.index": index, "epochs": epochs})
    for key, record in found.records.items():
        yield key, found.specs[key], record


def valid_row(record: RunRecord) -> HistoryRow | None:
    """The last epoch before the reference collapsed; None if it never was valid."""
    limit = diagnostics["D2"].limit
    valid = list(takewhile(lambda row: limit.judge(Measurement(row.d2)) is Status.PASS, record.history))
    return valid[-1] if valid and valid[-1].gamma else None


def mean_size(row: HistoryRow | None, first: int) -> float:
    """Mean of |Γ_l| over the layers from `first` on; NaN without any."""
    return math.nan if row is None else mean([abs(value) for value in row.gamma[first:]])


def aggregation(record: RunRecord) -> Finding | None:
    """What D5 says of a run."""
    return record.report.findings.get("D5") if record.report is not None else None


def carried_by_one(record: RunRecord) -> bool | None:
    """Whether D5 fires; None where it says neither."""
    found = aggregation(record)
    return None if found is None else found.status.fired


def carried_by_layer_zero(record: RunRecord) -> bool | None:
    """Whether D5 fires, and the layer with the largest Γ is layer 0."""
    alone = carried_by_one(record)
    return alone and best_layer(record) == 0


def best_layer(record: RunRecord) -> int | None:
    """The layer with the largest Γ; None where Γ was not measured."""
    found = record.report.measures.get("gamma") if record.report is not None else None
    gammas = found.per_layer if found is not None else ()
    return max(range(len(gammas)), key=gammas.__getitem__) if gammas else None


def carried(record: RunRecord) -> str:
    """In words: what D5 says."""
    found = aggregation(record)
    if found is None:
        return "D5 was not measured"
    if found.value is None:
        return f"D5 {found.status}: {found.note}"
    return f"D5 {found.status}, R = {found.value:.2f} without layer {best_layer(record)}"
