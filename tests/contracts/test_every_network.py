"""What every registered network promises; new files in creditscope/networks/ are found by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from creditscope.networks import networks
from creditscope.networks.build import build, network_options
from creditscope.networks.staged import StagedNetwork

SHAPE, CLASSES = (3, 16, 16), 5


@pytest.fixture(params=list(networks))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def net(name: str) -> StagedNetwork:
    """In evaluation mode, with BatchNorm statistics that are not the trivial ones."""
    built = build(name, SHAPE, CLASSES, 3).train()
    with torch.no_grad():
        built(images(seed=8))
    return built.eval()


def images(seed: int = 7, count: int = 6) -> Tensor:
    return torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed))


def labels(count: int = 6) -> Tensor:
    return torch.arange(count) % CLASSES


def owners(net: StagedNetwork, value: Tensor) -> set[str]:
    """Names of the parameters that a value depends on."""
    named = dict(net.named_parameters())
    gradients = torch.autograd.grad(value.sum(), list(named.values()), allow_unused=True)
    return {key for key, gradient in zip(named, gradients, strict=True) if gradient is not None}


def test_the_same_seed_gives_the_same_bits(name: str) -> None:
    first, again = (build(name, SHAPE, CLASSES, 11).state_dict() for _ in range(2))
    assert list(first) == list(again)
    assert all(torch.equal(first[key], again[key]) for key in first)


def test_another_seed_gives_other_weights_everywhere(name: str) -> None:
    first, other = build(name, SHAPE, CLASSES, 11), build(name, SHAPE, CLASSES, 12)
    for one, two in zip(first.modules(), other.modules(), strict=True):
        if isinstance(one, nn.Linear | nn.Conv2d):
            assert not torch.equal(one.weight, two.weight)


def test_construction_leaves_the_global_generator_untouched(name: str) -> None:
    before = torch.get_rng_state()
    build(name, SHAPE, CLASSES, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_global_generator_does_not_reach_the_weights(name: str) -> None:
    states = []
    for seed in (1, 2):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            states.append(build(name, SHAPE, CLASSES, 11).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_logits_have_one_row_per_sample_and_one_column_per_class(net: StagedNetwork) -> None:
    assert net(images()).shape == (6, CLASSES)


def test_hidden_states_do_not_change_the_logits(net: StagedNetwork) -> None:
    logits, hiddens = net(images(), return_hidden=True)
    assert torch.equal(logits, net(images()))
    assert len(hiddens) == net.depth + 1 == len(net.blocks) + 1


def test_running_stage_by_stage_is_the_forward_pass(net: StagedNetwork) -> None:
    logits, hiddens = net(images(), return_hidden=True)
    state = net.embedding(images())
    assert torch.equal(state, hiddens[0])
    for index, block in enumerate(net.blocks):
        state = net.merge(index, state, block(state))
        assert torch.equal(state, hiddens[index + 1])
    assert torch.equal(net.readout(state), logits)


def test_a_branch_enters_the_next_state_unchanged(net: StagedNetwork) -> None:
    """∂h_{l+1}/∂f_l = I, so that the credit of h_{l+1} is the credit of f_l."""
    for index, state in enumerate(net.double().states(images().double())[:-1]):
        branch = net.branch(index, state).detach().requires_grad_()
        after = net.merge(index, state, branch)
        credit = torch.randn(after.shape, dtype=after.dtype, generator=torch.Generator().manual_seed(index))
        (received,) = torch.autograd.grad((after * credit).sum(), branch)
        assert torch.equal(received, credit)


def test_a_residual_network_adds_its_branch_to_the_stream(net: StagedNetwork) -> None:
    for index, state in enumerate(net.states(images())[:-1]):
        branch = net.branch(index, state)
        if state.shape == branch.shape:
            assert torch.equal(net.merge(index, state, branch), state + branch if net.residual else branch)


def test_all_weights_of_a_stage_are_in_its_block(net: StagedNetwork) -> None:
    hiddens = [state.detach() for state in net.states(images())]
    for index, state in enumerate(hiddens[:-1]):
        used = owners(net, net.merge(index, state, net.branch(index, state)))
        assert used == {f"blocks.{index}.{key}" for key, _ in net.blocks[index].named_parameters()}
    outside = owners(net, net.embedding(images())) | owners(net, net.readout(hiddens[-1]))
    assert outside == {key for key, _ in net.named_parameters() if not key.startswith("blocks.")}


def test_the_gradient_at_every_state_is_finite_and_alive(net: StagedNetwork) -> None:
    logits, hiddens = net(images(), return_hidden=True)
    loss = F.cross_entropy(logits, labels(), reduction="sum")
    for gradient, state in zip(torch.autograd.grad(loss, hiddens), hiddens, strict=True):
        assert gradient.shape == state.shape
        assert gradient.isfinite().all()
        assert gradient.abs().max() > 0


def test_every_linear_and_convolution_receives_gradient(net: StagedNetwork) -> None:
    F.cross_entropy(net.train()(images()), labels()).backward()
    for key, layer in net.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            assert layer.weight.grad is not None, key
            assert layer.weight.grad.abs().max() > 0, key


def test_the_backward_pass_is_the_gradient(net: StagedNetwork) -> None:
    """Central differences along a random direction of all weights, in float64, fall onto the promise."""
    net.double()
    generator, inputs = torch.Generator().manual_seed(5), images().double()
    weights = list(net.parameters())
    ways = [torch.randn(w.shape, dtype=w.dtype, generator=generator) for w in weights]
    promised = torch.autograd.grad(F.cross_entropy(net(inputs), labels()), weights)
    slope = sum((p * way).sum().item() for p, way in zip(promised, ways, strict=True))
    losses = []
    with torch.no_grad():
        for step in (1e-7, -2e-7):
            for weight, way in zip(weights, ways, strict=True):
                weight += step * way
            losses.append(F.cross_entropy(net(inputs), labels()).item())
    assert (losses[0] - losses[1]) / 2e-7 == pytest.approx(slope, rel=1e-4)


def test_float64_agrees_with_float32(net: StagedNetwork) -> None:
    single = net(images())
    double = net.double()(images().double())
    assert double.dtype == torch.float64
    torch.testing.assert_close(double.float(), single, rtol=1e-3, atol=1e-4)


def test_evaluation_mode_answers_the_same_twice(net: StagedNetwork) -> None:
    assert torch.equal(net(images()), net(images()))


def test_in_evaluation_mode_samples_do_not_see_each_other(net: StagedNetwork) -> None:
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    torch.testing.assert_close(net(images()[order]), net(images())[order])


def test_weights_survive_a_file(net: StagedNetwork, name: str, tmp_path: Path) -> None:
    save_file(net.state_dict(), tmp_path / "weights.safetensors")
    twin = build(name, SHAPE, CLASSES, 99).eval()
    twin.load_state_dict(load_file(tmp_path / "weights.safetensors"))
    assert torch.equal(twin(images()), net(images()))


def test_a_shallow_twin_without_blocks_still_classifies(name: str) -> None:
    shallow = build(name, SHAPE, CLASSES, 3, depth=0)
    assert shallow.depth == 0
    assert shallow(images()).shape == (6, CLASSES)


def test_the_entry_knows_its_own_name_and_revision(name: str) -> None:
    assert networks[name].name == name
    assert networks[name].revision >= 1


def test_options_have_plain_defaults_that_a_record_can_hold(name: str) -> None:
    for default in network_options(name).values():
        parts = default if isinstance(default, tuple) else (default,)
        assert all(isinstance(part, bool | int | float | str) for part in parts)


def layer_norm_networks() -> Iterator[str]:
    """The residual networks whose read-out begins with a LayerNorm."""
    for each in networks:
        built = build(each, SHAPE, CLASSES, 0)
        outside = [m for key, m in built.named_modules() if not key.startswith("blocks")]
        if built.residual and any(isinstance(m, nn.LayerNorm) for m in outside):
            yield each


@pytest.mark.parametrize("name", list(layer_norm_networks()))
def test_residual_layer_norm_networks_have_the_published_attributes(name: str) -> None:
    built = build(name, SHAPE, CLASSES, 0)
    assert isinstance(getattr(built, "embed", getattr(built, "patch_embed", None)), nn.Module)
    assert isinstance(built.blocks, nn.ModuleList)
    pairs = [(getattr(built, a, None), getattr(built, b, None)) for a, b in (("out_ln", "out_head"), ("norm", "head"))]
    assert any(isinstance(a, nn.LayerNorm) and isinstance(b, nn.Linear) for a, b in pairs)


def test_the_published_layer_norm_networks_are_among_them() -> None:
    assert {"resmlp", "vit_mini"} <= set(layer_norm_networks())
