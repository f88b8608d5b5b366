"""Are the numbers those of last time?  A table against the one that was written before, run by run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from creditscope.errors import BadFile
from creditscope.files import read_text
from creditscope.intervals import t_interval
from creditscope.reproduction.sheet import Line, Sheet


@dataclass(frozen=True, slots=True)
class Change:
    """A number of a run that is not what it was; `inside` says whether the seeds' 95 % interval holds it."""

    row: str
    heading: str
    key: str
    was: float
    now: float
    inside: bool | None


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


def changes(before: Sheet, now: Sheet) -> tuple[int, list[Change]]:
    """How many numbers of the same runs are the same to the last bit, and which are not."""
    known = {(line.row, line.quantity): line for line in before.lines}
    same, moved = 0, []
    for line in now.lines:
        old = known.get((line.row, line.quantity))
        for change in _changed(old, line) if old is not None else ():
            if json.dumps(change.was) == json.dumps(change.now):
                same += 1
            else:
                moved.append(change)
    return same, moved


def _changed(old: Line, line: Line) -> Iterator[Change]:
    """The numbers of runs that both have."""
    if len(old.values) != len(old.keys) or len(line.values) != len(line.keys):
        return
    before = dict(zip(old.keys, old.values, strict=True))
    for key, value in zip(line.keys, line.values, strict=True):
        if key in before:
            yield Change(line.row, line.heading, key, before[key], value, _inside(value, old))


def _inside(value: float, old: Line) -> bool | None:
    """Whether the 95 % t-interval of the seeds before holds a value, scales as logarithms; None without one."""
    numbers = [value, *old.values]
    if len(old.values) < 2 or not all(map(math.isfinite, numbers)):
        return None
    if old.kind == "scale":
        if min(numbers) <= 0:
            return None
        numbers = [math.log(number) for number in numbers]
    low, high = t_interval(numbers[1:])
    return low <= numbers[0] <= high


def told(same: int, moved: list[Change]) -> str:
    """In words, one line for every number that moved."""
    if not moved:
        return f"All {same:,} numbers of earlier runs are the same, to the last bit." if same else ""
    words = {True: "inside the seeds' 95 % interval", False: "OUTSIDE the seeds' 95 % interval"}
    lines = [
        f"  {change.row}, {change.heading}, run {change.key}: {change.was:.6g} before, {_by(change)}"
        f" ({'no interval over seeds' if change.inside is None else words[change.inside]})"
        for change in moved
    ]
    return "\n".join((f"Not those of the table before: {len(moved)} of {same + len(moved)} numbers", *lines))


def _by(change: Change) -> str:
    """The number now; where six digits do not show the move, how large it is."""
    if f"{change.was:.6g}" != f"{change.now:.6g}":
        return f"{change.now:.6g} now"
    return f"now {abs(change.now / change.was - 1):.0e} of it away, in the last digits"
