"""The plain convolutional network: shapes, order of operations, no normalisation but BatchNorm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from creditscope.networks.build import build
from creditscope.networks.small_cnn import ConvStage


def test_the_four_stages_have_the_stated_shapes() -> None:
    hiddens = build("small_cnn", (3, 32, 32), 10, 0).states(torch.zeros(2, 3, 32, 32))
    assert [tuple(h.shape[1:]) for h in hiddens] == [(32, 16, 16), (64, 8, 8), (128, 4, 4), (256,)]


def test_images_whose_sides_differ_or_are_odd_are_read() -> None:
    net = build("small_cnn", (1, 9, 28), 10, 0, channels=4)
    assert net(torch.zeros(2, 1, 9, 28)).shape == (2, 10)


def test_pooling_before_or_after_the_rectifier_is_the_same() -> None:
    stage = ConvStage(3, 4).eval()
    x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    assert torch.equal(stage(x), F.max_pool2d(F.relu(stage.bn(stage.conv(x))), 2))


def test_the_network_is_plain_and_has_batch_norm_but_no_layer_norm() -> None:
    net = build("small_cnn", (3, 16, 16), 10, 0)
    kinds = [type(layer) for layer in net.modules()]
    assert not net.residual
    assert kinds.count(nn.Conv2d) == kinds.count(nn.BatchNorm2d) == 3
    assert kinds.count(nn.Linear) == 2
    assert nn.LayerNorm not in kinds


def test_fewer_stages_leave_the_first_ones() -> None:
    for depth in range(4):
        net = build("small_cnn", (3, 16, 16), 10, 0, depth=depth)
        full = build("small_cnn", (3, 16, 16), 10, 0)
        assert [type(b) for b in net.blocks] == [type(b) for b in full.blocks][:depth]
        assert net(torch.zeros(2, 3, 16, 16)).shape == (2, 10)
