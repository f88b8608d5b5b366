"""Every published number that we have run, once: ours beside it, from the longest training that has a record."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from creditscope.papers.comparison import LOGARITHMIC, TOLERANCE, Agreement, Kind
from creditscope.papers.paper import Paper
from creditscope.papers.tables import ComparisonRow, ComparisonTable

DECIDED = (Agreement.AGREES, Agreement.DIFFERS, Agreement.UNDECIDED)
RANKED: tuple[Kind, ...] = ("share", "cosine", "scale", "points", "degrees")  # kinds that have a tolerance of their own


@dataclass(frozen=True, slots=True)
class ComparedNumber:
    """A row of a table whose published figure was compared.

    as_long      ours was trained as long as published, or the number belongs to an epoch that ours has reached
    same_epoch   the latter alone: the published training went on for longer
    """

    table: ComparisonTable
    row: ComparisonRow
    as_long: bool
    same_epoch: bool = False

    @property
    def anchor(self) -> str:
        """The name of its row on the page of numbers; Greek letters stay, since rows may differ by one."""
        words = f"{self.table.experiment} {self.row.row} {self.row.quantity}"
        return "n-" + re.sub(r"[\W_]+", "-", words.lower()).strip("-")

    @property
    def pair(self) -> tuple[float, float] | None:
        """Published number and ours, both in their own unit; None for flags and events that have no number.

        A list of values counts by its mean (scales: geometric), a range by the point that is nearest to ours.
        """
        if self.row.difference is None or not math.isfinite(self.row.difference):
            return None
        if self.row.kind in LOGARITHMIC:
            centre = fmean(math.log10(value) for value in self.row.values)
            return 10 ** (centre - self.row.difference), 10**centre
        centre = fmean(self.row.values)
        return centre - self.row.difference, centre

    @property
    def tolerances(self) -> float:
        """The size of the difference, in tolerances of its kind; 0 for kinds that are not ranked."""
        if self.row.kind not in RANKED or self.row.difference is None or not math.isfinite(self.row.difference):
            return 0.0
        return abs(self.row.difference) / TOLERANCE[self.row.kind]


def compared_numbers(paper: Paper, tables: Sequence[ComparisonTable]) -> list[ComparedNumber]:
    """One entry for every published number with runs of ours; a table as published goes before a shorter one.

    Tables that borrow the figures of other experiments are left out.
    """
    numbers: dict[tuple[str, str, str], ComparedNumber] = {}
    for table in tables:  # of every experiment the default budget first, the one as published last
        for row in table.rows if table.experiment in paper.published.figures else ():
            if row.agreement in DECIDED:
                shorter = _is_shorter(paper, table, row)
                number = ComparedNumber(table, row, row.early or not shorter, row.early and shorter)
                numbers[table.experiment, row.row, row.quantity] = number
    return list(numbers.values())


def _is_shorter(paper: Paper, table: ComparisonTable, row: ComparisonRow) -> bool:
    theirs = paper.published.training(table.experiment).epochs
    return theirs is not None and row.epochs is not None and row.epochs < theirs


def length_in_words(numbers: Sequence[ComparedNumber]) -> str:
    """How our training relates to the published one, for numbers that are compared at an equal length."""
    if numbers and all(number.same_epoch for number in numbers):
        return "read after the same epoch of a longer published training"
    other = ", or read after the same epoch" if any(number.same_epoch for number in numbers) else ""
    return f"trained as long as published{other}"


def largest_differences(numbers: Sequence[ComparedNumber]) -> Iterator[ComparedNumber]:
    """What differs, most tolerances of its kind first, one number for every row of a table."""
    seen: set[str] = set()
    for number in sorted(numbers, key=lambda number: -number.tolerances):
        if number.row.agreement is Agreement.DIFFERS and number.tolerances and number.row.row not in seen:
            seen.add(number.row.row)
            yield number
