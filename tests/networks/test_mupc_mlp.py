"""The scaled residual MLP: its definition, layer by layer, and the spread of its weights."""

from __future__ import annotations

import math

import pytest
import torch

from creditscope.errors import InvalidInput
from creditscope.networks.build import build


def test_the_forward_pass_is_its_definition() -> None:
    width, layers, inputs = 8, 5, torch.randn(6, 12, generator=torch.Generator().manual_seed(1))
    net = build("mupc_mlp", 12, 3, 0, width=width, depth=layers - 2)
    p = net.state_dict()
    states = [inputs @ p["embed.weight"].T / math.sqrt(12)]
    for block in range(layers - 2):
        active = states[-1] * (states[-1] > 0)
        states.append(states[-1] + active @ p[f"blocks.{block}.w.weight"].T / math.sqrt(width * layers))
    logits, hiddens = net(inputs, return_hidden=True)
    torch.testing.assert_close(hiddens, states)
    torch.testing.assert_close(logits, (states[-1] * (states[-1] > 0)) @ p["head.weight"].T / width)
    assert not any(name.endswith("bias") for name in p)


def test_every_weight_is_standard_normal() -> None:
    for weight in build("mupc_mlp", 784, 10, 0, width=64, depth=2).parameters():
        assert weight.std().item() == pytest.approx(1.0, abs=0.1)


def test_it_may_have_no_block_but_not_fewer() -> None:
    assert build("mupc_mlp", 12, 3, 0, depth=0).depth == 0
    with pytest.raises(InvalidInput, match="depth is -1"):
        build("mupc_mlp", 12, 3, 0, depth=-1)


def test_all_blocks_at_once_give_what_each_gives_alone() -> None:
    net = build("mupc_mlp", 12, 3, 0, width=8, depth=4).double()
    states = torch.randn(4, 6, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    torch.testing.assert_close(list(net.stacked_stages(states)), net.stages_at(list(states)))
