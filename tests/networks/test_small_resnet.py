"""The residual convolutional network: how blocks fall into groups, and what the shortcut carries."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from creditscope.networks.build import build


def channels(depth: int) -> list[int]:
    net = build("small_resnet", (3, 8, 8), 10, 0, channels=4, depth=depth)
    return [h.shape[1] for h in net.states(torch.zeros(2, 3, 8, 8))]


@pytest.mark.parametrize(
    ("depth", "expected"),
    [(0, [4]), (1, [4, 4]), (2, [4, 4, 8]), (3, [4, 4, 8, 16]), (4, [4, 4, 4, 8, 16]), (6, [4, 4, 4, 8, 8, 16, 16])],
)
def test_blocks_are_split_over_three_groups_the_first_ones_first(depth: int, expected: list[int]) -> None:
    assert channels(depth) == expected


def test_channels_double_where_the_image_halves() -> None:
    hiddens = build("small_resnet", (3, 32, 32), 10, 0).states(torch.zeros(2, 3, 32, 32))
    assert [tuple(h.shape[1:]) for h in hiddens] == [(16, 32, 32), (16, 32, 32), (32, 16, 16), (64, 8, 8)]


def test_the_shortcut_averages_pixels_and_starts_new_channels_at_zero() -> None:
    net = build("small_resnet", (3, 8, 8), 10, 0, channels=2)
    h = torch.randn(3, 2, 8, 8, generator=torch.Generator().manual_seed(1))
    carried = net.merge(1, h, torch.zeros(3, 4, 4, 4))
    for row in range(4):
        for column in range(4):
            window = h[:, :, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
            torch.testing.assert_close(carried[:, :2, row, column], window.mean(dim=(2, 3)))
    assert not carried[:, 2:].any()


def test_odd_images_pass_the_shortcut() -> None:
    net = build("small_resnet", (1, 7, 9), 10, 0, channels=2, depth=6)
    assert [tuple(h.shape[2:]) for h in net.states(torch.zeros(2, 1, 7, 9))][-1] == (2, 3)


def test_nothing_normalises_the_stream_on_its_way_to_the_head() -> None:
    """The logits without bias scale with h_L, unlike behind a LayerNorm."""
    net = build("small_resnet", (3, 8, 8), 10, 0, channels=2).double()
    h = torch.randn(3, 8, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    bias = net.head.bias
    torch.testing.assert_close(net.readout(1e6 * h) - bias, 1e6 * (net.readout(h) - bias))
    assert not any(isinstance(layer, nn.LayerNorm) for layer in net.modules())
