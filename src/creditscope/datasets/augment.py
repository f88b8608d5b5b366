"""Random crops and mirror images of a whole batch at once, without a loop over its images.

The images of a batch are laid out on a canvas of zeros where neighbours share their margins: `padding` zeros before
every row, `padding` rows of zeros before every channel.  A shifted window of an image, over all of its channels, then
lies within one run of bytes, and the whole batch is one gather of such runs.  What comes out is a view of them.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Shifts(NamedTuple):
    """The random window and mirroring of each image of a batch; all three have shape (N,)."""

    down: Tensor  # first row of the window in the padded image, 0..2·padding
    right: Tensor  # first column of the window in the padded image, 0..2·padding
    mirrored: Tensor  # True: the image was mirrored left to right before it was padded


def draw_shifts(count: int, generator: torch.Generator, *, padding: int, flip: bool) -> Shifts:
    """Draw windows and mirrorings uniformly, with one integer per image."""
    positions = 2 * padding + 1
    sides = 2 if flip else 1
    drawn = torch.randint(sides * positions**2, (count,), generator=generator, device=generator.device)
    place = drawn // sides
    return Shifts(place // positions, place % positions, (drawn % sides).bool())


def crop_and_flip(images: Tensor, indices: Tensor, shifts: Shifts, *, padding: int) -> Tensor:
    """Windows of the images that `indices` names, mirrored, zero-padded and shifted: (M, C, H, W) -> (N, C, H, W).

    out[n, :, y, x] = image[:, y + down - padding, x + right - padding], and 0 outside of it, where image is
    images[indices[n]] or its mirror image.  Pixels keep their type; the result is a view with gaps between its rows.
    """
    order = shifts.mirrored.argsort(stable=True)  # upright images first: one half of the batch is mirrored, not all
    upright = len(order) - int(shifts.mirrored.sum())
    order = order.to(images.device)
    chosen = images.index_select(0, indices.to(images.device).index_select(0, order))

    count, channels, height, width = chosen.shape
    pitch = width + padding
    plane = pitch * (height + padding)
    image = plane * channels
    reach = image - plane + pitch * (height - 1) + width  # elements from the first to the last one of a window
    last = image * (count - 1) + 2 * padding * (pitch + 1)  # where the last window may start
    canvas = chosen.new_zeros(last + reach)
    inside = canvas.as_strided(chosen.shape, (image, plane, pitch, 1), padding * (pitch + 1))
    inside[:upright] = chosen[:upright]
    inside[upright:] = chosen[upright:].flip(-1)

    place = torch.empty_like(order)
    place[order] = torch.arange(count, device=order.device)
    starts = place * image + (shifts.down * pitch + shifts.right).to(images.device)
    windows = canvas.as_strided((last + 1, reach), (1, 1)).index_select(0, starts)
    return windows.as_strided(chosen.shape, (reach, plane, pitch, 1))
