"""Checks of a network's options and of its sample shape; every refusal says why."""

from __future__ import annotations

import math

from creditscope.errors import InvalidInput

MOST_BLOCKS = 10_000  # no network of this kind has more, and a misprint is refused before it is built


def depth_of(depth: int) -> int:
    """`depth` if a network can have that many blocks."""
    if whole("depth", depth, 0) > MOST_BLOCKS:
        raise InvalidInput(
            f"depth is {depth:,}.\nBuilding that many blocks would not end. Give at most {MOST_BLOCKS:,}."
        )
    return depth


def whole(option: str, value: int, least: int) -> int:
    """`value` if it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InvalidInput(
            f"{option} is {value!r}.\n"
            "No network has that size, so a record that names it would describe nothing.\n"
            f"Give a whole number of at least {least}."
        )
    return value


def within(option: str, value: float, low: float, high: float) -> float:
    """`value` if low <= value <= high; a NaN is outside."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high or math.isinf(value):
        wanted = f"of at least {low}" if math.isinf(high) else f"between {low} and {high}"
        raise InvalidInput(
            f"{option} is {value!r}.\n"
            "Outside this range the record would describe a different network.\n"
            f"Give a number {wanted}."
        )
    return float(value)


def features(inputs: int | tuple[int, ...]) -> int:
    """Number of features of one flattened sample."""
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    return math.prod(whole(f"Axis {axis} of the sample shape", size, 1) for axis, size in enumerate(shape))


def image_shape(name: str, inputs: int | tuple[int, ...]) -> tuple[int, int, int]:
    """(channels, height, width) of one sample, for a network that needs images."""
    shape = (inputs,) if isinstance(inputs, int) else tuple(inputs)
    if len(shape) != 3:
        raise InvalidInput(
            f"The samples have shape {shape}, but {name!r} reads images (channels, height, width).\n"
            "Read as images, features that are not neighbours would be mixed.\n"
            "Give the shape of one image, such as (3, 32, 32), or use 'resmlp', which flattens its samples."
        )
    features(shape)
    return shape[0], shape[1], shape[2]


def image_at_least(side: int, shape: tuple[int, int, int], why: str) -> None:
    """Refuse images that would shrink to zero pixels inside the network."""
    if min(shape[1:]) < side:
        raise InvalidInput(
            f"The images are {shape[1]} x {shape[2]} pixels. {why}\n"
            "The deep states would be empty, and there would be nothing to measure.\n"
            f"Give images of at least {side} x {side} pixels."
        )


def patches(shape: tuple[int, int, int], patch: int) -> int:
    """Number of patches that tile an image exactly."""
    whole("patch", patch, 1)
    _, height, width = shape
    if height < patch or width < patch or height % patch or width % patch:
        fits = [side for side in range(1, min(height, width) + 1) if not height % side and not width % side]
        raise InvalidInput(
            f"patch is {patch}, but the images are {height} x {width} pixels.\n"
            "Pixels outside the last whole patch would never reach the network.\n"
            f"Give a patch that divides both sides: {', '.join(map(str, fits))}."
        )
    return (height // patch) * (width // patch)


def heads_of(d: int, heads: int) -> int:
    """`heads` if it divides the width d."""
    whole("heads", heads, 1)
    if d % heads:
        fits = [count for count in range(1, min(d, 32) + 1) if d % count == 0]
        raise InvalidInput(
            f"heads is {heads}, but the width d is {d}.\n"
            "The heads share the width equally; a remainder would be left out of the attention.\n"
            f"Give a number of heads that divides d: {', '.join(map(str, fits))}."
        )
    return heads
