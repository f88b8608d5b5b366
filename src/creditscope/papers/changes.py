"""Changes between a table and the one that was written before, run by run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from creditscope.errors import BadFile
from creditscope.files import read_text
from creditscope.papers.tables import ComparisonRow, ComparisonTable
from creditscope.statistics.intervals import t_interval

Number = float | str


@dataclass(frozen=True, slots=True)
class Change:
    """A number of a run that changed; `inside` says whether the 95 % interval of the earlier seeds holds it.

    key   of the run, or of all runs that give the number together; texts count as numbers
    """

    row: str
    heading: str
    key: str
    was: Number
    now: Number
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Changes:
    """How many numbers are identical to the last bit, how many are new, and the ones that changed."""

    same: int
    new: int
    moved: tuple[Change, ...]


def read_table(path: Path, paper: str) -> ComparisonTable | None:
    """A table of this paper that was written before; None if there is none."""
    if not path.exists():
        return None
    text = read_text(path, "The table")
    try:
        table = ComparisonTable.model_validate_json(text)
    except ValidationError as error:
        raise BadFile(
            f"{path} is not a comparison table: {error}\nIts numbers cannot be compared with the new ones. Remove it."
        ) from error
    if table.paper != paper:
        raise BadFile(
            f"{path} is a table of the paper {table.paper!r}, not of {paper!r}.\n"
            "It would be overwritten by another experiment. Choose another folder with --out."
        )
    return table


def changes(before: ComparisonTable, now: ComparisonTable) -> Changes:
    """Every number of a table against the same number of the same runs in the one before."""
    known = {(row.row, row.quantity): row for row in before.rows}
    same, new, moved = 0, 0, []
    for row in now.rows:
        old = known.get((row.row, row.quantity))
        earlier = {} if old is None else numbers(old)
        for key, value in numbers(row).items():
            if old is None or key not in earlier:
                new += 1
            elif json.dumps(earlier[key]) == json.dumps(value):
                same += 1
            else:
                moved.append(Change(row.row, row.heading, key, earlier[key], value, _inside(value, old)))
    return Changes(same, new, tuple(moved))


def numbers(row: ComparisonRow) -> dict[str, Number]:
    """The numbers or texts of a row by the key of their run; by all keys where the runs give one together."""
    for entries in (row.values, row.texts):
        if len(entries) == len(row.keys):
            return dict(zip(row.keys, entries, strict=True))
    together = ", ".join((*map(repr, row.values), *row.texts))
    return {" ".join((*row.keys, *row.controls)): together} if together else {}


def _inside(value: Number, old: ComparisonRow) -> bool | None:
    """Whether the 95 % t-interval of the earlier seeds holds a value, scales as logarithms; None without one."""
    if isinstance(value, str) or len(old.values) < 2 or not all(map(math.isfinite, (value, *old.values))):
        return None
    points = [value, *old.values]
    if old.kind == "scale":
        if min(points) <= 0:
            return None
        points = [math.log(point) for point in points]
    low, high = t_interval(points[1:])
    return low <= points[0] <= high


def changes_text(made: Changes) -> str:
    """The changes in words, one line for every number that changed; empty if there was nothing to compare."""
    count = made.same + len(made.moved)
    if not count:
        return ""
    new = f" {made.new:,} new." if made.new else ""
    if not made.moved:
        return f"All {count:,} numbers are identical to the previous table, to the last bit.{new}"
    words = {True: "inside the seeds' 95 % interval", False: "OUTSIDE the seeds' 95 % interval"}
    lines = [
        f"  {change.row}, {change.heading}, {_run(change.key)}: {_digits(change.was)} before, {_size(change)}"
        f" ({'no interval over seeds' if change.inside is None else words[change.inside]})"
        for change in made.moved
    ]
    return "\n".join((f"{len(made.moved)} of {count:,} numbers differ from the previous table.{new}", *lines))


def _run(key: str) -> str:
    return f"run {key}" if " " not in key else f"over {len(key.split())} runs"


def _digits(number: Number) -> str:
    return number if isinstance(number, str) else f"{number:.6g}"


def _size(change: Change) -> str:
    """The new number; where six digits do not show the change, its relative size."""
    if isinstance(change.was, str) or isinstance(change.now, str) or _digits(change.was) != _digits(change.now):
        return f"{_digits(change.now)} now"
    return f"relative change {abs(change.now / change.was - 1):.0e} now"
