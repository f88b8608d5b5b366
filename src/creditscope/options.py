"""Options of registered networks, methods and datasets: names and defaults from the signature, values by their kind."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NoReturn

from creditscope.errors import InvalidInput, UnknownName
from creditscope.registry import unknown

Scalar = bool | int | float | str
Option = Scalar | tuple[Scalar, ...]

# Leading parameters that are no options, because the builder passes them: shape and classes, the cache folder.
PASSED = {"network": 2, "method": 0, "data": 1}
MOST_STEPS = 10**6  # in any whole number of a method, which may be steps in a batch: a misprint is refused
LARGEST = 10**300  # of a whole number that stands for a float
KINDS: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


def options_of(part: str, entry: Any) -> dict[str, Option]:
    """The options of a registered "network", "method" or "data" entry, with their defaults."""
    parameters = _parameters(entry.__init__ if inspect.isclass(entry) else entry)
    first = PASSED[part] + inspect.isclass(entry)  # a class has self before all others
    return {p.name: p.default for p in parameters[first:] if p.default is not p.empty}


@lru_cache(maxsize=1024)
def _parameters(function: Any) -> list[inspect.Parameter]:
    """The parameters of a function, looked up once: a study of thousands of runs asks for the same few."""
    return list(inspect.signature(function).parameters.values())


def filled(part: str, name: str, known: Mapping[str, Option], given: Mapping[str, Any]) -> dict[str, Option]:
    """Every option with the value given or its default; an unknown name or a value of another kind is refused."""
    owner = f"{part} {name!r}"
    for option in given:
        if option not in known:
            raise UnknownName(unknown(f"option of {owner}", option, known))
    values = {
        option: _value(f"{option} of {owner}", given[option], default) if option in given else default
        for option, default in known.items()
    }
    for option, value in values.items():
        if part == "method" and type(value) is int and value > MOST_STEPS:
            raise InvalidInput(
                f"{option} of {owner} is {value:,}.\n"
                f"With so many steps or draws in a batch no run would end. Give at most {MOST_STEPS:,}."
            )
    return values


def _value(label: str, value: Any, default: Option) -> Option:
    """The value in the kind of the default: 1 becomes 1.0 where a number is wanted, a list becomes a tuple."""
    if isinstance(default, tuple):
        if isinstance(value, list | tuple):
            like = [default[min(place, len(default) - 1)] for place in range(len(value))] if default else value
            return tuple(_scalar(label, part, kind) for part, kind in zip(value, like, strict=True))
        _refuse(label, value, f"a list, such as the default {list(default)}")
    return _scalar(label, value, default)


def _scalar(label: str, value: Any, default: Scalar) -> Scalar:
    kind = type(default)
    if kind is float and type(value) is int and abs(value) < LARGEST:
        return float(value)
    if type(value) is kind:
        return value
    _refuse(label, value, f"{KINDS.get(kind, kind.__name__)}, such as the default {default!r}")


def _refuse(label: str, value: Any, wanted: str) -> NoReturn:
    raise InvalidInput(
        f"{label} is {value!r}, of type {type(value).__name__}.\n"
        f"It would be read as something other than what was meant. Give {wanted}."
    )
