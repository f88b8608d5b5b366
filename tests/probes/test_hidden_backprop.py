"""Weights that change where the forward pass cannot see it move a gradient and leave local credit alone."""

from __future__ import annotations

from contextlib import suppress

import pytest
import torch
from tests.probes.subjects import backprop, batches, bound, dfa, fa, generator, network, noise
from torch import nn

from creditscope.credit import CreditSource
from creditscope.methods.fa_weights import WeightFeedback
from creditscope.probes.block_weights import Watching, block_weights, changed, fitting_images, unseen_change
from creditscope.probes.hidden_backprop import hidden_backprop
from creditscope.probes.source import FunctionSource
from creditscope.stream.convolution import Convolution
from creditscope.stream.find import find_stream
from creditscope.stream.trace import cross_entropy


@pytest.fixture(scope="module")
def net():
    return network()


def probed(net, credit, count=64, shape=(40,)):
    source = credit if isinstance(credit, CreditSource) else FunctionSource(credit)
    (batch,) = batches(count, count, shape)
    return hidden_backprop(
        find_stream(net), source, list(net.blocks), batch, loss_fn=cross_entropy, generator=generator()
    )


@pytest.mark.parametrize("rule", [dfa, fa, lambda net: bound(WeightFeedback(), net)])
def test_local_rules_do_not_move(net, rule):
    found = probed(net, rule(net))
    assert max(found.ratios) < 1e-10
    assert len(found.ratios) == 3
    assert (found.precision, found.images) == ("float64", 12)


def test_the_gradient_moves_as_itself(net):
    assert probed(net, backprop(net)).ratios == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5])
def test_a_share_of_the_gradient_shows_in_proportion(net, share):
    local = dfa(net)

    def mixed(batch):
        pairs = zip(local.signals(batch), backprop(net)(batch), strict=True)
        return [
            (1 - share) * a / a.norm(dim=1, keepdim=True) + share * g / g.norm(dim=1, keepdim=True) for a, g in pairs
        ]

    found = probed(net, mixed)
    assert max(found.ratios) > 1e-3
    assert 0.2 * share < max(found.ratios) < 5 * share


def test_a_rule_that_quietly_uses_the_weights_of_one_block_above_moves(net):
    """Credit through the last block alone, as if by autograd from a state that was not detached."""
    local = dfa(net)

    def quiet(batch):
        signals = list(local.signals(batch))
        with torch.enable_grad():
            state = net.states(batch.inputs)[2].detach().requires_grad_()
            logits = net.readout(net.merge(2, state, net.branch(2, state)))
            loss = nn.functional.cross_entropy(logits, batch.labels, reduction="sum")
            (signals[2],) = torch.autograd.grad(loss, state)
        return signals

    found = probed(net, quiet)
    assert found.ratios[2] > 0.5
    assert max(found.ratios[:2]) < 1e-10


def test_credit_that_differs_from_call_to_call_is_not_judged(net):
    assert probed(net, noise(net)).text == "the credit differs between two identical calls"


@pytest.mark.parametrize("seed", [3, 9])
def test_credit_of_another_network_or_of_a_copy_does_not_read_this_one(net, seed):
    found = probed(net, backprop(network(seed=seed)))
    assert not found.reads_network
    assert found.ratios == (0.0,) * 3
    assert probed(net, dfa(net)).reads_network


def test_constant_credit_does_not_read_the_network(net):
    fixed = [torch.ones(64, 48)] * 4
    assert not probed(net, lambda batch: [a[: len(batch.labels)] for a in fixed]).reads_network


def test_a_copy_is_found_where_no_weight_leaves_a_direction_free():
    net = network("small_cnn", (3, 8, 8))
    shape = (3, 8, 8)
    assert not probed(net, backprop(network("small_cnn", shape)), 8, shape).reads_network


def test_a_stream_without_blocks_is_not_judged():
    net = network(depth=0)
    assert "no block weight" in probed(net, backprop(net)).text


def test_credit_that_insists_on_float32_is_judged_in_float32(net):
    matrices = [torch.randn(10, 48, generator=generator(layer)) for layer in range(4)]

    def single(batch):
        logits = net(batch.inputs).detach()
        error = logits.softmax(1) - nn.functional.one_hot(batch.labels, 10)
        return [error @ matrix for matrix in matrices]

    found = probed(net, single)
    assert found.precision == "single"
    assert max(found.ratios) < 1e-2
    gradient = backprop(net)

    def both(batch):
        return [a + g for a, g in zip(single(batch), gradient(batch), strict=True)]

    assert max(probed(net, both).ratios) > 0.1


def test_the_model_gets_its_own_tensors_back_whatever_happens(net):
    own = [(parameter, parameter.data.data_ptr(), parameter.detach().clone()) for parameter in net.parameters()]

    def failing(batch):
        raise RuntimeError("broken")

    for credit in (backprop(net), failing):
        with suppress(RuntimeError):
            probed(net, credit)
        for parameter, place, values in own:
            assert parameter.data_ptr() == place
            assert torch.equal(parameter, values)


def test_an_unseen_change_is_as_large_as_the_weight_and_no_input_feels_it():
    weight = nn.Parameter(torch.randn(7, 20, generator=generator(), dtype=torch.float64))
    rows = torch.randn(5, 20, generator=generator(1), dtype=torch.float64)
    rows[3] = rows[1]  # inputs that repeat themselves leave more room, not less
    change = unseen_change(weight, [rows[:2], rows[2:]], generator(2))
    assert change.norm().item() == pytest.approx(weight.norm().item())
    assert (rows @ change.T).abs().max() < 1e-12
    assert (torch.randn(1, 20, dtype=torch.float64) @ change.T).norm() > 0.1


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"padding": 1},
        {"padding": "same"},
        {"padding": "valid"},
        {"stride": 2, "padding": 2},
        {"dilation": 2},
        {"groups": 2},
    ],
)
def test_patches_times_the_unfolded_weight_is_the_convolution(options):
    layer = nn.Conv2d(4, 6, 3, **options)
    x = torch.randn(2, 4, 8, 8, generator=generator())
    with torch.no_grad():
        seen = Watching([layer.weight])
        with seen:
            out = layer(x) - layer.bias.view(-1, 1, 1)
        groups = options.get("groups", 1)
        rows = seen.inputs[layer.weight][0].view(2, groups, -1, 36 // groups)
        weight = layer.weight.view(groups, 6 // groups, -1)
        again = torch.einsum("ngpk,gok->ngop", rows, weight).reshape(out.shape)
    assert torch.allclose(out, again, atol=1e-5)
    assert Convolution.of(x, layer.weight, stride=layer.stride, padding=0).patches().shape[1] == 36 // groups


def test_as_many_images_are_taken_as_leave_room():
    weight = nn.Parameter(torch.zeros(3, 100))
    assert fitting_images({weight: 1}, 64) == (25, [weight])
    assert fitting_images({weight: 1}, 8) == (8, [weight])
    assert fitting_images({weight: 40}, 64) == (2, [weight])
    assert fitting_images({weight: 99}, 64) == (1, [weight])
    assert fitting_images({weight: 100}, 64) == (0, [])


def test_changed_weights_come_back_also_after_an_error():
    weight = nn.Parameter(torch.ones(2, 2))
    place = weight.data_ptr()
    with pytest.raises(KeyError), changed({weight: torch.ones(2, 2)}):
        assert torch.equal(weight, torch.full((2, 2), 2.0))
        raise KeyError
    assert weight.data_ptr() == place
    assert torch.equal(weight, torch.ones(2, 2))


def test_only_matrices_and_filters_of_the_blocks_are_changed(net):
    names = {id(p): name for name, p in net.named_parameters()}
    found = {names[id(weight)] for weight in block_weights(list(net.blocks))}
    assert found == {f"blocks.{block}.w{i}.weight" for block in range(3) for i in (1, 2)}


def test_tokens_are_judged_where_their_number_leaves_room():
    net = network("vit_mini", (3, 8, 8), patch=4)
    found = probed(net, backprop(net), 8, (3, 8, 8))
    assert max(found.ratios) == pytest.approx(1.0, rel=0.01)
