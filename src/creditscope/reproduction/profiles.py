"""Which layers carry DFA's alignment while the reference is still valid?  Γ per layer, from the history of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import takewhile

from creditscope.aggregation import mean, survives
from creditscope.diagnostics import diagnostics
from creditscope.records import HistoryRow, RunRecord
from creditscope.reproduction.book import Book
from creditscope.verdict import Measurement, Status


def valid_row(record: RunRecord) -> HistoryRow | None:
    """The last epoch before the reference collapsed; None if it never was valid."""
    limit = diagnostics["D2"].limit
    valid = list(takewhile(lambda row: limit.judge(Measurement(row.d2)) is Status.PASS, record.history))
    return valid[-1] if valid and valid[-1].gamma else None


def profiles(book: Book, index: str) -> Iterator[tuple[int, str, HistoryRow | None]]:
    """Seed, key and the last valid epoch of DFA's runs with this index."""
    found = book.find("early_epochs", {"method.index": index})
    for key, record in found.records.items():
        yield found.specs[key].seed, key, valid_row(record)


def share(row: HistoryRow | None) -> float:
    """R of D5; NaN where there is no positive mean to be carried."""
    return survives(row.gamma) if row is not None and mean(row.gamma) > 0 else math.nan


def carried_by_one(row: HistoryRow | None) -> bool | None:
    """Whether R < 1/3, the limit of D5, of which the condition on the null is not asked here."""
    status = diagnostics["D5"].limit.judge(Measurement(share(row)))
    return {Status.FIRES: True, Status.PASS: False}.get(status)


def layer_zero_alone(row: HistoryRow | None) -> bool | None:
    """Whether R < 1/3, the limit of D5, and the best layer is layer 0."""
    alone = carried_by_one(row)
    return alone and row is not None and best_layer(row) == 0


def best_layer(row: HistoryRow) -> int:
    """The layer with the largest Γ."""
    return max(range(len(row.gamma)), key=row.gamma.__getitem__)


def mean_size(row: HistoryRow | None, first: int) -> float:
    """Mean of |Γ_l| over the layers from `first` on; NaN without any."""
    return math.nan if row is None else mean([abs(value) for value in row.gamma[first:]])


def carried(row: HistoryRow | None) -> str:
    """In words: what is left of the mean without its best layer."""
    if row is None:
        return "no valid epoch"
    found, when = share(row), f"after epoch {row.epoch + 1}"
    if math.isnan(found):
        return f"no positive mean of Γ {when}"
    return f"R = {found:.2f} without layer {best_layer(row)}, {when}"
