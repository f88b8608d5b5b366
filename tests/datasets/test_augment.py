"""The one gather that crops and mirrors a batch, against a loop over its images."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from torch import Tensor

from creditscope.datasets.augment import Shifts, crop_and_flip, draw_shifts


def slow_crop_and_flip(images: Tensor, indices: Tensor, shifts: Shifts, padding: int) -> Tensor:
    """Pad each image on its own, look at each pixel on its own."""
    _, channels, height, width = images.shape
    out = torch.zeros(len(indices), channels, height, width, dtype=images.dtype)
    for n, index in enumerate(indices.tolist()):
        image = images[index]
        if shifts.mirrored[n]:
            image = torch.stack([image[:, :, width - 1 - x] for x in range(width)], dim=2)
        for y in range(height):
            for x in range(width):
                row, column = y + int(shifts.down[n]) - padding, x + int(shifts.right[n]) - padding
                if 0 <= row < height and 0 <= column < width:
                    out[n, :, y, x] = image[:, row, column]
    return out


def some_images(count: int, channels: int, height: int, width: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(1, 256, (count, channels, height, width), dtype=torch.uint8, generator=generator)


@settings(max_examples=40, deadline=None)
@given(
    count=some.integers(1, 6),
    channels=some.integers(1, 3),
    height=some.integers(1, 6),
    width=some.integers(1, 6),
    padding=some.integers(0, 4),
    flip=some.booleans(),
    seed=some.integers(0, 10**6),
)
def test_the_gather_equals_a_loop_over_pixels(
    count: int, channels: int, height: int, width: int, padding: int, flip: bool, seed: int
) -> None:
    images = some_images(8, channels, height, width, seed)
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(8, (count,), generator=generator)
    shifts = draw_shifts(count, generator, padding=padding, flip=flip)
    fast = crop_and_flip(images, indices, shifts, padding=padding)
    assert torch.equal(fast, slow_crop_and_flip(images, indices, shifts, padding))


@pytest.mark.parametrize("mirrored", [False, True])
def test_every_shift_of_one_image_agrees_with_the_loop(mirrored: bool) -> None:
    images = some_images(1, 3, 5, 7)
    down, right = (part.flatten() for part in torch.meshgrid(torch.arange(9), torch.arange(9), indexing="ij"))
    shifts = Shifts(down, right, torch.full((81,), mirrored))
    indices = torch.zeros(81, dtype=torch.int64)
    fast = crop_and_flip(images, indices, shifts, padding=4)
    assert torch.equal(fast, slow_crop_and_flip(images, indices, shifts, 4))


def test_the_middle_window_is_the_image_itself() -> None:
    images = some_images(5, 3, 32, 32)
    indices = torch.tensor([4, 0, 0, 2])
    middle = torch.full((4,), 4)
    upright = crop_and_flip(images, indices, Shifts(middle, middle, torch.zeros(4, dtype=torch.bool)), padding=4)
    mirrored = crop_and_flip(images, indices, Shifts(middle, middle, torch.ones(4, dtype=torch.bool)), padding=4)
    assert torch.equal(upright, images[indices])
    assert torch.equal(mirrored, images[indices].flip(-1))


def test_every_window_and_side_is_drawn_equally_often() -> None:
    shifts = draw_shifts(162_000, torch.Generator().manual_seed(3), padding=4, flip=True)
    cells = shifts.down * 18 + shifts.right * 2 + shifts.mirrored
    counts = cells.bincount(minlength=162).double()
    chi_square = ((counts - 1000) ** 2 / 1000).sum().item()
    assert len(counts) == 162
    assert abs(chi_square - 161) < 5 * (2 * 161) ** 0.5  # mean and standard deviation of χ² with 161 degrees


def test_nothing_is_mirrored_or_moved_unless_asked_for() -> None:
    shifts = draw_shifts(100, torch.Generator().manual_seed(0), padding=0, flip=False)
    assert not any(part.any() for part in shifts)


def test_the_same_generator_state_draws_the_same_shifts() -> None:
    first, second = (draw_shifts(64, torch.Generator().manual_seed(7), padding=4, flip=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_stored_images_are_left_alone() -> None:
    images = some_images(6, 3, 8, 8)
    before = images.clone()
    shifts = draw_shifts(6, torch.Generator().manual_seed(0), padding=2, flip=True)
    crop_and_flip(images, torch.arange(6), shifts, padding=2).fill_(0)
    assert torch.equal(images, before)
