"""Roles of the numbers in a log, their names in the published logs, and dotted paths to other names."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from creditscope.errors import InvalidInput, UnknownName
from creditscope.registry import unknown
from creditscope.statistics.shares import checked_shares

PUBLISHED = {"accuracy": "final_test_acc", "log": "log", "epoch": "epoch"}  # and h_L_norm, g_2_norm, ... in every row
PUBLISHED_NORM = re.compile(r"([hg]_(?:[0-9]+|L))_norm")
ROLE = re.compile(r"accuracy|log|epoch|[hg]|[hg]_(?:[0-9]+|L)")
EXAMPLES = ["accuracy", "log", "epoch", "h", "h_0", "h_1", "h_2", "h_L", "g", "g_0", "g_1", "g_2", "g_L"]
LAST = -1  # the layer h_L or g_L of a network whose number of blocks is not known
NOTHING = object()


def checked_roles(fields: Mapping[str, str]) -> dict[str, str]:
    """The user's own paths by role; a role that does not exist is refused."""
    for role, path in fields.items():
        if not ROLE.fullmatch(role):
            raise UnknownName(
                unknown("field", role, EXAMPLES) + " Any layer may stand in place of 1 and 2.\n"
                "Write ROLE=PATH: the role of the number, then its key in the log, as in h_L=norms.last."
            )
        if not path:
            raise InvalidInput(
                f"The field {role} has an empty path.\nIt names no number. Write, for example, {role}=norms.last."
            )
    return dict(fields)


def look_up(content: Any, path: str) -> Any:
    """The value at a dotted path, or NOTHING; a key may contain dots itself, a list counts from 0 or -1."""
    if isinstance(content, Mapping):
        if path in content:
            return content[path]
        steps = path.split(".")
        for cut in range(1, len(steps)):
            head = ".".join(steps[:cut])
            if head in content:
                return look_up(content[head], ".".join(steps[cut:]))
    elif isinstance(content, list):
        step, _, rest = path.partition(".")
        if re.fullmatch(r"-?[0-9]{1,9}", step) and -len(content) <= int(step) < len(content):
            return look_up(content[int(step)], rest) if rest else content[int(step)]
    return NOTHING


def paths(content: Any, lead: str = "") -> Iterator[str]:
    """The paths that exist, for messages; the rows of a log are left out."""
    inner: Sequence[tuple[object, Any]] = ()
    if isinstance(content, Mapping):
        inner = list(content.items())
    elif isinstance(content, list) and not any(isinstance(item, Mapping | list) for item in content):
        inner = list(enumerate(content))
    if lead:
        yield lead
    for key, value in inner:
        yield from paths(value, f"{lead}.{key}" if lead else str(key))


def missing(where: str, role: str, path: str, keys: Sequence[str]) -> UnknownName:
    """The error for a path that leads nowhere."""
    message = unknown("key", path, list(keys))
    return UnknownName(
        f"{where}: the field {role} was not found. {message}\n"
        f"It would be left out of the audit. Name its key: --field {role}=KEY."
    )


WRITTEN_OUT = ("nan", "inf", "infinity", "+inf", "+infinity", "-inf", "-infinity")


def number(value: Any, where: str) -> float | None:
    """A number; NaN and infinity also as text, which is how JSON writes them; None for null."""
    if value is None:
        return None
    if isinstance(value, str) and value.strip().lower() in WRITTEN_OUT:
        return float(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _as_float(value)
    raise InvalidInput(f"{where} is {shown(value)}, not a number.\nIt cannot be judged. Name another key.")


def _as_float(value: int | float) -> float:
    """As a float; an integer that is too large for one is infinite."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


def norm(value: Any, where: str) -> float | None:
    """A number that is not negative; D0 judges NaN and infinity."""
    length = number(value, where)
    if length is not None and length < 0:
        raise InvalidInput(
            f"{where} must be a norm, which is never negative; got {length:g}.\n"
            "It may be a logarithm. Name the key of the norm itself."
        )
    return length


def share(value: Any, where: str) -> float:
    """An accuracy from 0 to 1; 31 instead of 0.31, or NaN, is refused."""
    given = number(value, where)
    if given is None:
        raise InvalidInput(f"{where} is null, not a number.\nD3 needs the share of correct answers. Name another key.")
    (accuracy,) = checked_shares([given], where)
    return accuracy


def shown(value: Any) -> str:
    """A value in a message, abbreviated."""
    if isinstance(value, Mapping | list):
        return f"{'an object' if isinstance(value, Mapping) else 'a list'} of {len(value)}"
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
