"""The residual MLP is the published one: its definition, its scale at the start, its options."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from creditscope.networks.build import build


@pytest.mark.parametrize("seed", [42, 123, 456])
def test_the_stream_starts_at_the_published_scale(seed: int) -> None:
    """On standard-normal inputs of CIFAR's shape: median ‖h_0‖ ≈ 9 and ‖f‖/‖h‖ ≈ 0.096."""
    net = build("resmlp", (3, 32, 32), 10, seed)
    inputs = torch.randn(512, 3, 32, 32, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        hiddens = net.states(inputs)
        branches = [net.branch(index, hiddens[index]) for index in range(4)]
    assert hiddens[0].norm(dim=1).median().item() == pytest.approx(9.2, abs=0.4)
    for state, branch in zip(hiddens, branches, strict=False):
        assert (branch.norm(dim=1) / state.norm(dim=1)).median().item() == pytest.approx(0.096, abs=0.008)


def test_the_forward_pass_is_its_definition() -> None:
    net = build("resmlp", 12, 3, 0, d=8, depth=2)
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(1))
    p = net.state_dict()
    h = x @ p["embed.weight"].T + p["embed.bias"]
    for block in ("blocks.0", "blocks.1"):
        centred = h - h.mean(dim=1, keepdim=True)
        n = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
        z = n @ p[f"{block}.w1.weight"].T + p[f"{block}.w1.bias"]
        gelu = z * 0.5 * (1 + torch.erf(z / 2**0.5))
        h = h + gelu @ p[f"{block}.w2.weight"].T + p[f"{block}.w2.bias"]
    logits = F.layer_norm(h, (8,)) @ p["out_head.weight"].T + p["out_head.bias"]
    torch.testing.assert_close(net(x), logits)


def test_its_parameters_have_the_published_names() -> None:
    net = build("resmlp", 12, 3, 0, d=8, depth=1)
    layers = ["embed", "blocks.0.ln", "blocks.0.w1", "blocks.0.w2", "out_ln", "out_head"]
    assert list(net.state_dict()) == [f"{layer}.{part}" for layer in layers for part in ("weight", "bias")]


def test_w2_is_drawn_from_the_asked_normal_distribution_without_bias() -> None:
    for std in (0.01, 0.2):
        block = build("resmlp", 12, 3, 0, d=256, depth=1, w2_std=std).blocks[0]
        assert block.w2.weight.std().item() == pytest.approx(std, rel=0.02)
        assert not block.w2.bias.any()


def test_a_shape_means_its_flattened_features() -> None:
    x = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(1))
    by_shape, by_count = build("resmlp", (3, 5, 5), 3, 0, d=8), build("resmlp", 75, 3, 0, d=8)
    assert torch.equal(by_shape(x), by_count(x.flatten(1)))


def test_without_the_terminal_layer_norm_the_head_hears_the_scale() -> None:
    h = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
    deaf, open_ = (build("resmlp", 12, 3, 0, d=8, terminal_ln=flag).double() for flag in (True, False))
    h = h.double()
    torch.testing.assert_close(deaf.readout(1e6 * h), deaf.readout(1e3 * h))
    assert open_.readout(1e6 * h).norm() > 100 * open_.readout(1e3 * h).norm()


def test_without_the_residual_addition_a_state_is_its_branch() -> None:
    net = build("resmlp", 12, 3, 0, d=8, depth=2, residual=False, w2_std=0.5)
    hiddens = net.states(torch.ones(2, 12))
    assert torch.equal(hiddens[2], net.blocks[1](hiddens[1]))
