"""The size of a network, known before anything is allocated."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from creditscope.errors import CreditscopeError, OutOfResources
from creditscope.machine import memory
from creditscope.networks import networks
from creditscope.networks.factory import Factory
from creditscope.options import Option, filled, options_of

IN_TRAINING = 4  # the weights, their gradient and two moments of Adam
LARGE = 10**9  # bytes, as `_at_most` counts them
# Samples to which a network is fitted for a check before any data are loaded
NOMINAL: tuple[tuple[int, ...], ...] = ((1, 28, 28), (3, 32, 32), (40,))


def check_size(
    name: str, inputs: int | tuple[int, ...], classes: int, options: Mapping[str, Option], *, copies: int = 1
) -> None:
    """Refuse a registered network whose weights, `copies` times, exceed the memory of this machine."""
    if isinstance(networks[name], Factory):
        return  # it takes no sizes that we know, and may do anything while it is made
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    given = filled("network", name, options_of("network", networks[name]), options)
    if copies * _at_most(shape, classes, given) < memory():
        return
    needed = copies * _bytes(name, shape, classes, given)
    if needed > memory():
        what = "its weights, their gradient and the two moments of Adam" if copies > 1 else "its weights alone"
        number = f"{needed:.1e}" if needed < math.inf else "more than 9e18"
        raise OutOfResources(
            f"The network {name!r} with {_told(given)} would need {number} bytes for {what}; "
            f"this machine has {memory():.1e}.\nNothing was allocated. Give smaller sizes."
        )


def check_options(name: str, options: Mapping[str, Option]) -> None:
    """Refuse options with which a registered network cannot be made, or not trained here, whatever the data are."""
    if isinstance(networks[name], Factory):
        return
    refusals: list[CreditscopeError] = []
    for shape in NOMINAL:
        try:
            check_size(name, shape, 10, options, copies=IN_TRAINING)
            _sketch(name, shape, 10, filled("network", name, options_of("network", networks[name]), options))
            return
        except CreditscopeError as error:
            refusals.append(error)
    if len({str(error) for error in refusals}) == 1 or all(isinstance(e, OutOfResources) for e in refusals):
        raise refusals[0]  # otherwise the shape of the sample decides, and the run itself will tell


def _sketch(name: str, shape: tuple[int, ...], classes: int, options: Mapping[str, Any]) -> nn.Module:
    """The network, if it may be large without its numbers: tensors of the device `meta` have a shape and no memory."""
    with torch.device("meta" if _at_most(shape, classes, options) > LARGE else "cpu"):
        made: nn.Module = networks[name](shape, classes, **options, generator=torch.Generator())
    return made


def _bytes(name: str, shape: tuple[int, ...], classes: int, options: Mapping[str, Any]) -> float:
    try:
        sketch = _sketch(name, shape, classes, options)
    except RuntimeError as error:
        if "overflow" in str(error):  # more than 2^63 bytes in one tensor
            return math.inf
        raise
    return float(sum(t.numel() * t.element_size() for t in (*sketch.parameters(), *sketch.buffers())))


def _numbers(values: Iterable[object]) -> list[int]:
    """The whole numbers among the options, those in tuples too."""
    flat = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    return [part for part in flat if isinstance(part, int) and not isinstance(part, bool)]


def _at_most(shape: tuple[int, ...], classes: int, options: Mapping[str, Any]) -> int:
    """Bytes that the network does not exceed: no block has more weights than 64 times its largest number squared."""
    return max(0, classes, *shape, *_numbers(options.values())) ** 2 * 64 * 4 * _depth(options)


def _depth(options: Mapping[str, Option]) -> int:
    depth = options.get("depth", 1)
    return max(1, depth) if isinstance(depth, int) else 1


def _told(options: Mapping[str, Option]) -> str:
    large = {name: value for name, value in options.items() if _numbers([value])}
    return ", ".join(f"{name}={value}" for name, value in large.items())
