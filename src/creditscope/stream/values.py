"""The floating-point tensors in what modules take and return: tensors, tuples, lists, mappings and nests of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import Tensor

from creditscope.errors import ModelMismatch

Change = Callable[[Tensor], Tensor]


def entering(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Change, name: str, argument: int = 0
) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
    """Arguments with one of their floating-point tensors changed, and that tensor."""
    inside = len(floating(args))
    state = None
    if argument < inside:
        args, state = with_floating(args, change, argument)
    elif argument - inside < len(floating(kwargs)):
        kwargs, state = with_floating(kwargs, change, argument - inside)
    if state is None:
        raise ModelMismatch(
            f"{name} takes no floating-point tensor.\n"
            "There is no state to measure. Name the blocks between the embedding and the read-out."
        )
    return args, kwargs, state


def floating(value: Any) -> list[Tensor]:
    """The floating-point tensors in a value, in order."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    return [tensor for _, part in _parts(value) for tensor in floating(part)]


def with_floating(value: Any, change: Change, number: int = 0) -> tuple[Any, Tensor | None]:
    """A value with one of the floating-point tensors in it changed, and that tensor; None if there is none."""
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            return value, None
        changed = change(value)
        return changed, changed
    for key, part in _parts(value):
        inside = len(floating(part))
        if number < inside:
            changed, state = with_floating(part, change, number)
            return _exchanged(value, key, changed), state
        number -= inside
    return value, None


def replaced(value: Any, old: Tensor, new: Tensor) -> Any:
    """A value with one tensor exchanged for another wherever it occurs."""
    if value is old:
        return new
    for key, part in _parts(value):
        changed = replaced(part, old, new)
        if changed is not part:
            value = _exchanged(value, key, changed)
    return value


def _parts(value: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        return value.items()
    return enumerate(value) if isinstance(value, tuple | list) else ()


def _exchanged(value: Any, key: Any, part: Any) -> Any:
    if isinstance(value, tuple):
        parts = [*value[:key], part, *value[key + 1 :]]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    copied = copy.copy(value)
    copied[key] = part
    return copied


def first_tensor(output: Any, where: str) -> Tensor:
    """The tensor in what a module returned, the first floating-point one if there are several."""
    return nth_tensor(output, 0, where)


def nth_tensor(output: Any, number: int, where: str) -> Tensor:
    """One of the floating-point tensors in what a module returned."""
    tensors = floating(output)
    if number >= len(tensors):
        raise ModelMismatch(
            f"{where} returned {type(output).__name__}, which holds no floating-point tensor.\n"
            "There is no state to measure. Name modules that return a tensor, or a tuple whose first one is the state."
        )
    return tensors[number]


def first_floating(value: Any) -> Tensor | None:
    """The first floating-point tensor in a value, None if there is none."""
    return next(iter(floating(value)), None)
