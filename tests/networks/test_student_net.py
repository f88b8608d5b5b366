"""The student: linear at α = 0, bounded at α = 1, a straight mixture between."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from creditscope.networks.build import build


def noise(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("depth", [2, 4, 8, 12])
def test_at_alpha_zero_the_whole_network_is_affine(depth: int) -> None:
    net, x = build("student_net", 20, 3, 0, depth=depth, alpha=0.0).double(), noise(2, 20)
    torch.testing.assert_close(net(x.mean(dim=0, keepdim=True)), net(x).mean(dim=0, keepdim=True))


def test_at_alpha_one_a_branch_is_never_longer_than_the_root_of_its_width() -> None:
    net = build("student_net", 20, 3, 0, alpha=1.0).double()
    assert net.branch(0, 1e9 * noise(50, 128)).norm(dim=1).max() <= math.sqrt(128) * (1 + 1e-12)


@pytest.mark.parametrize("alpha", [0.25, 0.5])
def test_between_them_the_branch_is_their_mixture(alpha: float) -> None:
    h = noise(5, 128)
    linear, mixed, bounded = (build("student_net", 20, 3, 0, alpha=a).double().branch(0, h) for a in (0.0, alpha, 1.0))
    torch.testing.assert_close(mixed, (1 - alpha) * linear + alpha * bounded)


def test_the_stream_is_residual_unless_asked_otherwise() -> None:
    x = noise(5, 20)
    for residual in (True, False):
        net = build("student_net", 20, 3, 0, residual=residual).double()
        h = net.states(x)
        torch.testing.assert_close(h[1], net.blocks[0](h[0]) + (h[0] if residual else 0))


def test_nothing_is_normalised() -> None:
    kinds = (nn.LayerNorm, nn.BatchNorm1d, nn.GroupNorm)
    assert not any(isinstance(layer, kinds) for layer in build("student_net", 20, 3, 0).modules())
