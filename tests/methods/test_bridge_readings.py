"""Other readings of the two bridges: what the auxiliary network sees and learns, and which credit trains a block."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.methods.conftest import small
from tests.methods.test_credit_bridge import value_network
from tests.methods.test_state_bridge import BRIDGES, by_hand
from tests.methods.twins import local_gradients

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.bridge import BridgeNetwork, BridgeRule
from creditscope.methods.credit_bridge import CreditBridge, true_gradients, value_slope
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.rule import EVERYTHING, Moment
from creditscope.methods.state_bridge import StateBridge
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture


def bridge_rule(name: str, **options: Any) -> BridgeRule:
    rule = methods[name](**options)
    assert isinstance(rule, BridgeRule)
    return rule


def test_an_error_scale_of_1_over_n_shows_the_gradient_of_the_mean_loss(generator: torch.Generator) -> None:
    state, error = torch.randn(6, 4, generator=generator), torch.randn(6, 3, generator=generator)
    start, position = generator.get_state(), torch.full((1,), 0.5)
    scaled = BridgeNetwork([4 + 1 + 3, 16, 1], scale_free=False, error_scale=1 / 128, generator=generator)
    plain = BridgeNetwork([4 + 1 + 3, 16, 1], scale_free=False, generator=generator.set_state(start))
    torch.testing.assert_close(scaled(state, position, error), plain(state, position, error / 128))


@pytest.mark.parametrize("name", BRIDGES)
def test_with_index_input_a_block_learns_from_the_credit_of_its_own_input(
    name: str, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), bridge_rule(name, index="input")
    credit = rule.credit(network, rule.feedback(network, batch, generator), batch)
    received = [list(credit.signals[max(stage - 1, 0)]) for stage in range(network.depth + 1)]
    for parameter, expected in local_gradients(network, batch, received, 0.0, "sample").items():
        torch.testing.assert_close(credit.gradients[parameter], expected, rtol=1e-8, atol=1e-11)


def test_an_absolute_loss_is_the_mean_squared_miss_of_a_feature(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), StateBridge(relative=False)
    feedback = rule.feedback(network, batch, generator)
    seen = forward_in_pieces(network, batch, EVERYTHING)
    start = generator.get_state()
    found = rule.auxiliary_loss(network, feedback, seen, generator).loss.item()
    relative = StateBridge().auxiliary_loss(network, feedback, seen, generator.set_state(start)).loss.item()
    assert found == pytest.approx(relative * seen.hiddens[-1].square().mean().item())


def test_gradients_taken_back_block_by_block_are_those_of_backprop(batch: Batch) -> None:
    network = small("resmlp")
    found = true_gradients(network, forward_in_pieces(network, batch, EVERYTHING))
    for gradient, expected in zip(found, capture(find_stream(network), batch).gradients, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-13)


def test_matching_at_every_layer_adds_the_mean_of_their_relative_errors(
    batch: Batch, generator: torch.Generator
) -> None:
    network, top, every = small("resmlp"), CreditBridge(), CreditBridge(matching="every")
    feedback = top.feedback(network, batch, generator)
    seen = forward_in_pieces(network, batch, EVERYTHING)
    start = generator.get_state()
    one = top.auxiliary_loss(network, feedback, seen, generator).loss
    all_of_them = every.auxiliary_loss(network, feedback, seen, generator.set_state(start)).loss
    slopes = value_slope(feedback, torch.stack(seen.hiddens), seen.error)
    gradients = capture(find_stream(network), batch).gradients
    missed = [((a - g) ** 2).sum() / (g**2).sum() for a, g in zip(slopes, gradients, strict=True)]
    expected = one - missed[-1] + sum(missed) / len(missed)
    assert all_of_them.item() == pytest.approx(expected.item(), rel=1e-8)


def test_a_plain_target_is_the_average_value_of_the_next_state(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), CreditBridge(target="plain")
    feedback = rule.feedback(network, batch, generator)
    seen = forward_in_pieces(network, batch, EVERYTHING)
    start = generator.get_state()
    residual = rule.auxiliary_loss(network, feedback, seen, generator).residual
    layers = torch.randint(network.depth, (5,), generator=generator.set_state(start)).tolist()
    worths = [
        [
            by_hand(value_network(feedback, which), seen.hiddens[at][i], at / network.depth, seen.error[i]).item()
            for which, at in (("value", layer), ("average", layer + 1))
        ]
        for i, layer in enumerate(layers)
    ]
    assert residual.item() == pytest.approx(sorted(abs(value - target) for value, target in worths)[2])


@pytest.mark.parametrize(("progress", "share"), [(0.0, 0.0), (0.05, 0.25), (0.1999, 0.9995), (0.2, 1.0), (0.9, 1.0)])
def test_a_warm_up_by_weight_grows_linearly_over_the_first_fifth(
    progress: float, share: float, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), CreditBridge(warm_up="weight")
    feedback = rule.feedback(network, batch, generator)
    learnt = rule.learn(network, feedback, batch, Moment(progress, generator)).gradients
    whole = rule.credit(network, feedback, batch).gradients
    for name, gradient in whole.items():
        expected = gradient if name.startswith("out_") else share * gradient
        torch.testing.assert_close(learnt[name], expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"matching": "all"}, "matching must be 'top' or 'every', got 'all'"),
        ({"target": "mean"}, "target must be 'soft_minimum' or 'plain', got 'mean'"),
        ({"warm_up": "none"}, "warm_up must be 'gate' or 'weight', got 'none'"),
        ({"index": "middle"}, "index must be 'output' or 'input', got 'middle'"),
        ({"error_scale": 0.0}, "error_scale must be a positive number, got 0.0"),
    ],
)
def test_readings_that_do_not_exist_are_refused(options: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        CreditBridge(**options)
