"""Are the numbers those of last time?  A table against the one that was written before, run by run."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from creditscope.errors import BadFile
from creditscope.files import read_text
from creditscope.papers.sheet import Line, Sheet
from creditscope.statistics.intervals import t_interval

Number = float | str


@dataclass(frozen=True, slots=True)
class Change:
    """A number of a run that is not what it was; `inside` says whether the seeds' 95 % interval holds it.

    key   of the run, or of all runs where they give one number together; words count as numbers
    """

    row: str
    heading: str
    key: str
    was: Number
    now: Number
    inside: bool | None


@dataclass(frozen=True, slots=True)
class Changes:
    """Numbers that are the same to the last bit, numbers that were not there before, and those that moved."""

    same: int
    new: int
    moved: tuple[Change, ...]


def read_sheet(path: Path) -> Sheet | None:
    """A table that was written before; None if there is none."""
    if not path.exists():
        return None
    text = read_text(path, "The table")
    try:
        return Sheet.model_validate_json(text)
    except ValidationError as error:
        raise BadFile(
            f"{path} is no table of a reproduction: {error}\nThe numbers could not be compared. Remove it."
        ) from error


def changes(before: Sheet, now: Sheet) -> Changes:
    """Every number of a table against the same number of the same runs in the one before."""
    known = {(line.row, line.quantity): line for line in before.lines}
    same, new, moved = 0, 0, []
    for line in now.lines:
        old = known.get((line.row, line.quantity))
        earlier = {} if old is None else numbers(old)
        for key, value in numbers(line).items():
            if old is None or key not in earlier:
                new += 1
            elif json.dumps(earlier[key]) == json.dumps(value):
                same += 1
            else:
                moved.append(Change(line.row, line.heading, key, earlier[key], value, _inside(value, old)))
    return Changes(same, new, tuple(moved))


def numbers(line: Line) -> dict[str, Number]:
    """The numbers or words of a line by the key of their run; by all keys where the runs give them together."""
    for found in (line.values, line.texts):
        if len(found) == len(line.keys):
            return dict(zip(line.keys, found, strict=True))
    told = ", ".join((*map(repr, line.values), *line.texts))
    return {" ".join((*line.keys, *line.twins)): told} if told else {}


def _inside(value: Number, old: Line) -> bool | None:
    """Whether the 95 % t-interval of the seeds before holds a value, scales as logarithms; None without one."""
    if isinstance(value, str) or len(old.values) < 2 or not all(map(math.isfinite, (value, *old.values))):
        return None
    found = [value, *old.values]
    if old.kind == "scale":
        if min(found) <= 0:
            return None
        found = [math.log(number) for number in found]
    low, high = t_interval(found[1:])
    return low <= found[0] <= high


def told(found: Changes) -> str:
    """In words, one line for every number that moved; nothing if there was nothing before."""
    count = found.same + len(found.moved)
    if not count:
        return ""
    beside = f" Not in it: {found.new:,}." if found.new else ""
    if not found.moved:
        return f"The {count:,} numbers of the table before are the same, to the last bit.{beside}"
    words = {True: "inside the seeds' 95 % interval", False: "OUTSIDE the seeds' 95 % interval"}
    lines = [
        f"  {change.row}, {change.heading}, {_run(change.key)}: {_shown(change.was)} before, {_by(change)}"
        f" ({'no interval over seeds' if change.inside is None else words[change.inside]})"
        for change in found.moved
    ]
    return "\n".join((f"Not those of the table before: {len(found.moved)} of {count:,} numbers.{beside}", *lines))


def _run(key: str) -> str:
    return f"run {key}" if " " not in key else f"of {len(key.split())} runs"


def _shown(number: Number) -> str:
    return number if isinstance(number, str) else f"{number:.6g}"


def _by(change: Change) -> str:
    """The number now; where six digits do not show the move, how large it is."""
    if isinstance(change.was, str) or isinstance(change.now, str) or _shown(change.was) != _shown(change.now):
        return f"{_shown(change.now)} now"
    return f"now {abs(change.now / change.was - 1):.0e} of it away, in the last digits"
