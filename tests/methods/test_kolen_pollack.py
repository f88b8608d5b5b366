"""Kolen-Pollack: B - W shrinks by the decay of every step, whatever the data."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from tests.methods.conftest import CLASSES, images, small
from torch import nn

import creditscope
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.bp import Backprop
from creditscope.methods.descent import Descent, laid_out
from creditscope.methods.inside_weights import weights_of
from creditscope.methods.kolen_pollack import KolenPollack
from creditscope.methods.learnt import angle, matrices
from creditscope.methods.rule import CreditRule, Feedback, Moment
from creditscope.methods.wrappers import Frozen, Penalty
from creditscope.networks.staged import StagedNetwork

OPTIMISERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, weight_decay=0.3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.5),
    "fused": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.5, fused=True),
}


def trained(
    rule: CreditRule, network: StagedNetwork, feedback: Feedback, optimiser: torch.optim.Optimizer, steps: int
) -> tuple[Feedback, float]:
    """Some steps under a schedule of learning rates, and Π_s (1 - η_s λ)."""
    generator, shrunk = torch.Generator().manual_seed(0), 1.0
    feedback = rule.equip(feedback, Descent.of(optimiser))
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] *= 0.95
        descent = Descent.of(optimiser)
        batch = Batch(images(100 + step), torch.arange(5) % CLASSES)
        credit = rule.learn(network, feedback, batch, Moment(step / steps, generator, descent=descent))
        for name, parameter in network.named_parameters():
            parameter.grad = laid_out(credit.gradients.get(name), parameter)
        optimiser.step()
        shrunk *= 1 - descent.learning_rate * descent.weight_decay
    return feedback, shrunk


def differences(network: StagedNetwork, feedback: Feedback) -> dict[str, torch.Tensor]:
    """B - W by weight."""
    weights = weights_of(network)
    return {name: (b - weights[name]).detach().clone() for name, b in matrices(feedback).by_weight().items()}


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
@pytest.mark.parametrize("name", ["resmlp", "small_cnn"])
@pytest.mark.parametrize("penalty", [0.0, 0.1])
def test_the_difference_from_the_weights_shrinks_by_the_decay_of_every_step(
    optimiser: str, name: str, penalty: float, batch: Batch, generator: torch.Generator
) -> None:
    """B_t - W_t = Π_s (1 - η_s λ) (B_0 - W_0), to 1e-12 in float64."""
    network = small(name)
    rule: CreditRule = Penalty(KolenPollack(), penalty) if penalty else KolenPollack()
    feedback = rule.feedback(network, batch, generator)
    before = differences(network, feedback)
    start = {key: p.detach().clone() for key, p in network.named_parameters()}
    feedback, shrunk = trained(rule, network, feedback, OPTIMISERS[optimiser](network.parameters()), steps=12)
    assert shrunk < 0.98
    assert all(not torch.equal(start[key], p) for key, p in network.named_parameters())
    for key, difference in differences(network, feedback).items():
        torch.testing.assert_close(difference, shrunk * before[key], rtol=0, atol=1e-12, msg=key)


def test_without_decay_the_difference_never_shrinks(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), KolenPollack(without_decay=True)
    feedback = rule.feedback(network, batch, generator)
    before = differences(network, feedback)
    optimiser = torch.optim.AdamW(network.parameters(), lr=0.01, weight_decay=0.0)
    feedback, _ = trained(rule, network, feedback, optimiser, steps=12)
    for key, difference in differences(network, feedback).items():
        torch.testing.assert_close(difference, before[key], rtol=0, atol=1e-12, msg=key)


def test_once_equal_to_the_weights_it_stays_backprop(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("vit_mini"), KolenPollack()
    feedback = rule.feedback(network, batch, generator)
    weights = weights_of(network)
    with torch.no_grad():
        for key, matrix in matrices(feedback).by_weight().items():
            matrix.copy_(weights[key])
    feedback, _ = trained(rule, network, feedback, OPTIMISERS["adamw"](network.parameters()), steps=5)
    found, expected = rule.credit(network, feedback, batch), Backprop().credit(network, Feedback(), batch)
    for one, two in zip(found.signals, expected.signals, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-12)


def test_the_feedback_of_frozen_weights_stays(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), Frozen(KolenPollack())
    feedback = rule.feedback(network, batch, generator)
    before = {key: matrix.detach().clone() for key, matrix in matrices(feedback).by_weight().items()}
    learning = rule.scope(network).parameters(network).values()
    feedback, _ = trained(rule, network, feedback, OPTIMISERS["adamw"](learning), steps=3)
    for key, matrix in matrices(feedback).by_weight().items():
        assert torch.equal(matrix, before[key]) == key.startswith("blocks."), key


def test_no_decay_is_refused_unless_asked_for(batch: Batch, generator: torch.Generator) -> None:
    network = small("resmlp")
    feedback = KolenPollack().feedback(network, batch, generator)
    descent = Descent.of(torch.optim.SGD(network.parameters(), lr=0.1))
    with pytest.raises(InvalidInput, match="The weight decay is 0"):
        KolenPollack().equip(feedback, descent)
    assert KolenPollack(without_decay=True).equip(feedback, descent).optimiser is not None


def test_learning_without_the_settings_of_the_step_is_refused(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), KolenPollack()
    with pytest.raises(InvalidInput, match="was not told how the network's weights step"):
        rule.learn(network, rule.feedback(network, batch, generator), batch, Moment(0.0, generator))


def test_feedback_without_its_matrices_is_refused(batch: Batch) -> None:
    with pytest.raises(InvalidInput, match="holds no learnt matrices"):
        KolenPollack().credit(small("resmlp"), Feedback(), batch)


def test_groups_with_different_settings_are_refused() -> None:
    one, two = (torch.nn.Parameter(torch.zeros(2)) for _ in range(2))
    groups = [{"params": [one], "weight_decay": 0.1}, {"params": [two], "weight_decay": 0.0}]
    with pytest.raises(InvalidInput, match="differ in weight_decay"):
        Descent.of(torch.optim.SGD(groups, lr=0.1))


@pytest.mark.parametrize("degrees", [0.0, 1e-6, 30.0, 90.0, 180.0])
@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e150])
def test_the_angle_is_exact_near_zero_and_at_any_scale(degrees: float, scale: float) -> None:
    turn = math.radians(degrees)
    one, other = torch.tensor([[1.0, 0.0], [math.cos(turn), math.sin(turn)]], dtype=torch.float64)
    assert angle(scale * one, 3 * other) == pytest.approx(degrees, abs=1e-12)
    assert math.isnan(angle(0 * one, other))


def test_the_angles_of_a_rule_are_those_of_its_matrices(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("small_cnn"), KolenPollack()
    feedback = rule.feedback(network, batch, generator)
    learnt, weights = matrices(feedback).by_weight(), weights_of(network)
    assert learnt.keys() == weights.keys() - {"embed.conv.weight"}
    found = rule.angles(network, feedback)
    for name, matrix in learnt.items():
        cosine = (matrix * weights[name]).sum() / matrix.norm() / weights[name].norm()
        assert math.cos(math.radians(found[name])) == pytest.approx(cosine.item())


# --- in a loop of one's own ---


def foreign() -> tuple[nn.Sequential, Batch]:
    torch.manual_seed(0)
    layers = [nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)]
    return nn.Sequential(*layers).double(), Batch(torch.randn(16, 6, dtype=torch.float64), torch.arange(16) % 3)


@pytest.mark.parametrize("optimiser", list(OPTIMISERS))
@pytest.mark.parametrize("loop", ["plain", "accumulated", "clipped", "skipped"])
def test_in_any_loop_the_difference_shrinks_by_the_decay_of_the_steps_that_were_taken(
    loop: str, optimiser: str
) -> None:
    """B_t - W_t = Π_s (1 - η_s λ) (B_0 - W_0), whatever the loop makes of the gradients between two steps."""
    model, (inputs, labels) = foreign()
    stepping = OPTIMISERS[optimiser](model.parameters())
    bound = creditscope.rule("kolen_pollack", model, example=(inputs, labels), optimizer=stepping)
    before, shrunk = differences(bound.network, bound.feedback), 1.0
    schedule = torch.optim.lr_scheduler.ExponentialLR(stepping, 0.9)
    for step in range(8):
        stepping.zero_grad()
        for part in (slice(0, 7), slice(7, 16)) if loop == "accumulated" else (slice(None),):
            bound.backward(inputs[part], labels[part])
        if loop == "clipped":
            assert nn.utils.clip_grad_norm_(model.parameters(), 0.1) > 0.1
        if loop == "skipped" and step % 3 == 1:
            continue
        descent = Descent.of(stepping)
        shrunk *= 1 - descent.learning_rate * descent.weight_decay
        stepping.step()
        schedule.step()
    assert shrunk < 0.98
    for key, difference in differences(bound.network, bound.feedback).items():
        torch.testing.assert_close(difference, shrunk * before[key], rtol=0, atol=1e-12, msg=key)


def test_weights_that_the_optimiser_does_not_hold_keep_their_feedback() -> None:
    model, batch = foreign()
    stepping = OPTIMISERS["sgd"](model[-1].parameters())
    bound = creditscope.rule("kolen_pollack", model, example=batch, optimizer=stepping)
    before = {key: matrix.detach().clone() for key, matrix in matrices(bound.feedback).by_weight().items()}
    bound.backward(*batch)
    stepping.step()
    for key, matrix in matrices(bound.feedback).by_weight().items():
        assert torch.equal(matrix, before[key]) == (key != "6.weight"), key


def test_a_step_with_a_closure_is_refused() -> None:
    """The gradients that it will use are not known before the closure runs."""
    model, batch = foreign()
    stepping = OPTIMISERS["sgd"](model.parameters())
    bound = creditscope.rule("kolen_pollack", model, example=batch, optimizer=stepping)

    def closure() -> float:
        return bound.backward(*batch).item()

    text = r"was called with a closure(.|\n)*Call the closure first"
    with pytest.raises(InvalidInput, match=text):
        stepping.step(closure)
    with pytest.raises(InvalidInput, match=text):
        stepping.step(closure=closure)


def test_in_a_loop_whose_optimiser_is_not_known_it_is_refused() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    inputs, labels = torch.randn(4, 6), torch.arange(4) % 3
    bound = creditscope.rule("kolen_pollack", model, example=(inputs, labels), blocks=["2"])
    with pytest.raises(InvalidInput, match="Pass optimizer= to creditscope.rule"):
        bound.backward(inputs, labels)
