"""Changes between a table and the one that was written before, run by run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from creditscope.errors import BadFile
from creditscope.papers.tables import ComparisonRow, ComparisonTable
from creditscope.statistics.intervals import t_interval

Numbers = tuple[float | str, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A number that changed; `inside` says whether the 95 % interval of the earlier seeds holds it.

    keys       of the run, or of all runs that give the numbers together
    was, now   the number, or all numbers that the runs give together; texts count as numbers
    """

    row: str
    heading: str
    keys: tuple[str, ...]
    was: Numbers
    now: Numbers
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
    table = ComparisonTable.from_json(path)
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
        for keys, entries in numbers(row).items():
            if old is None or keys not in earlier:
                new += 1
            elif json.dumps(earlier[keys]) == json.dumps(entries):
                same += 1
            else:
                moved.append(Change(row.row, row.heading, keys, earlier[keys], entries, _inside(entries, old)))
    return Changes(same, new, tuple(moved))


def numbers(row: ComparisonRow) -> dict[tuple[str, ...], Numbers]:
    """The number or text of each run by its key; by all keys where the runs give them together."""
    columns: tuple[Numbers, ...] = (row.values, row.texts)
    for entries in columns:
        if len(entries) == len(row.keys):
            return {(key,): (entry,) for key, entry in zip(row.keys, entries, strict=True)}
    together: Numbers = (*row.values, *row.texts)
    return {(*row.keys, *row.controls): together} if together else {}


def _inside(entries: Numbers, old: ComparisonRow) -> bool | None:
    """Whether the 95 % t-interval of the earlier seeds holds a number, scales as logarithms; None without one."""
    value = entries[0]
    if isinstance(value, str) or len(old.values) < 2 or len(old.values) != len(old.keys):
        return None
    points = [value, *old.values]
    if not all(map(math.isfinite, points)):
        return None
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
        f"  {change.row}, {change.heading}, {_runs(change.keys)}: {_digits(change.was)} before, {_size(change)}"
        f" ({'no interval over seeds' if change.inside is None else words[change.inside]})"
        for change in made.moved
    ]
    return "\n".join((f"{len(made.moved)} of {count:,} numbers differ from the previous table.{new}", *lines))


def _runs(keys: tuple[str, ...]) -> str:
    return f"run {keys[0]}" if len(keys) == 1 else f"over {len(keys)} runs"


def _digits(entries: Numbers) -> str:
    return ", ".join(entry if isinstance(entry, str) else f"{entry:.6g}" for entry in entries)


def _size(change: Change) -> str:
    """The new numbers; where six digits do not show the change, its largest relative size."""
    if _digits(change.was) != _digits(change.now):
        return f"{_digits(change.now)} now"
    pairs = zip(change.was, change.now, strict=True)
    sizes = [abs(now / was - 1) for was, now in pairs if isinstance(was, float) and isinstance(now, float) and was]
    return f"relative change {max(sizes):.0e} now"
