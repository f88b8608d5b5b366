"""Predictive coding: fixed predictions are backprop, multipliers reach it on a linear network, plain PC does not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.foreign_models import Branches
from tests.foreign_models import images as foreign_images
from tests.methods.conftest import CLASSES, SHAPE, images, small
from torch import Tensor, nn

import creditscope
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods import own_loop
from creditscope.methods.bp import Backprop
from creditscope.methods.curvature import Curvature, largest_curvature
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.predictive_coding import PredictiveCoding
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment
from creditscope.methods.wrappers import Frozen, Penalty
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.runs.run import train
from creditscope.runs.spec import RunSpec

NOTHING = Feedback()


def energy(
    network: StagedNetwork, states: list[Tensor], x: Tensor, label: int, rho: float, dual: list[Tensor]
) -> Tensor:
    """ℓ + (ρ/2) Σ‖ε_l + λ_l/ρ‖² of one sample, term by term."""
    predicted = [network.embedding(x)]
    for block in range(network.depth):
        predicted.append(network.merge(block, states[block], network.branch(block, states[block])))
    total = -torch.log_softmax(network.readout(states[-1]), 1)[0, label]
    for state, prediction, price in zip(states, predicted, dual, strict=True):
        total = total + rho / 2 * ((state - prediction + price / rho) ** 2).sum()
    return total


def errors(network: StagedNetwork, states: list[Tensor], x: Tensor) -> list[Tensor]:
    predicted = [network.embedding(x)]
    for block in range(network.depth):
        predicted.append(network.merge(block, states[block], network.branch(block, states[block])))
    return [(z - p).detach() for z, p in zip(states, predicted, strict=True)]


def slow(network: StagedNetwork, batch: Batch, rule: PredictiveCoding) -> tuple[list[list[Tensor]], dict[str, Tensor]]:
    """a_l of every sample and the mean of ∂E/∂θ at the last z, by autograd of the whole energy of one sample."""
    rho, alpha = (rule.rho, rule.alpha) if rule.multipliers else (1.0, 0.0)
    signals: list[list[Tensor]] = []
    total = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for i, label in enumerate(batch.labels.tolist()):
        x = batch.inputs[i : i + 1]
        states = [state.detach() for state in network.states(x)]
        dual = [torch.zeros_like(state) for state in states]
        for step in range(rule.steps):
            leaves = [state.requires_grad_() for state in states]
            slopes = torch.autograd.grad(energy(network, leaves, x, label, rho, dual), leaves)
            states = [(z - rule.step_size * slope).detach() for z, slope in zip(leaves, slopes, strict=True)]
            if step < rule.steps - 1:
                dual = [m + alpha * e for m, e in zip(dual, errors(network, states, x), strict=True)]
        found = zip(errors(network, states, x), dual, strict=True)
        signals.append([-(rho * e + m)[0] for e, m in found])
        last = energy(network, states, x, label, rho, dual)
        for name, gradient in zip(total, torch.autograd.grad(last, list(network.parameters())), strict=True):
            total[name] += gradient / len(batch.labels)
    return signals, total


@pytest.mark.parametrize("multipliers", [False, True], ids=["plain", "multipliers"])
def test_credit_and_updates_agree_with_autograd_of_the_energy_sample_by_sample(
    network: StagedNetwork, batch: Batch, multipliers: bool
) -> None:
    rule = PredictiveCoding(steps=7, step_size=0.07, multipliers=multipliers, rho=1.5, alpha=0.8)
    credit = rule.credit(network, NOTHING, batch)
    signals, gradients = slow(network, batch, rule)
    for layer, found in enumerate(credit.signals):
        torch.testing.assert_close(found, torch.stack([sample[layer] for sample in signals]), rtol=1e-9, atol=1e-12)
    assert credit.gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(credit.gradients[name], gradient, rtol=1e-8, atol=1e-11)


def test_fixed_predictions_are_backprop_in_signals_and_updates(network: StagedNetwork, batch: Batch) -> None:
    rule = PredictiveCoding(prediction="fixed", steps=network.depth + 1)
    credit, truth = rule.credit(network, NOTHING, batch), Backprop().credit(network, NOTHING, batch)
    for found, gradient in zip(credit.signals, truth.signals, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-10, atol=1e-13)
    for name, gradient in truth.gradients.items():
        torch.testing.assert_close(credit.gradients[name], gradient, rtol=1e-10, atol=1e-13)
    assert rule.exact_layers(network.depth) == frozenset(range(network.depth + 1))
    assert PredictiveCoding(prediction="fixed", step_size=0.5).exact_layers(3) == frozenset()
    assert PredictiveCoding().exact_layers(3) == frozenset()


def missed(rule: PredictiveCoding, network: StagedNetwork, batch: Batch) -> list[float]:
    """‖a_l - g_l‖/‖g_l‖ per state, then ‖u - b‖/‖b‖ over all parameters."""
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(0))
    credit, truth = rule.credit(network, feedback, batch), Backprop().credit(network, NOTHING, batch)
    layers = [float((a - g).norm() / g.norm()) for a, g in zip(credit.signals, truth.signals, strict=True)]
    flat = [
        torch.cat([found[name].flatten() for name in truth.gradients]) for found in (credit.gradients, truth.gradients)
    ]
    return [*layers, float((flat[0] - flat[1]).norm() / flat[1].norm())]


def test_multipliers_settle_at_backprop_on_a_linear_network_and_plain_coding_does_not(batch: Batch) -> None:
    linear = build("student_net", SHAPE, CLASSES, 5, d=9, depth=3, alpha=0.0, residual=False).double().eval()
    assert max(missed(PredictiveCoding(multipliers=True, steps=800), linear, batch)) < 1e-6
    assert min(missed(PredictiveCoding(steps=800), linear, batch)) > 1e-2


def test_the_largest_curvature_is_that_of_the_dense_hessian() -> None:
    network = small("resmlp", d=6, depth=2)
    batch = Batch(images(4, 3), torch.tensor([0, 2, 1]))
    states = [state.detach() for state in network.states(batch.inputs)]
    largest = 0.0
    for i, label in enumerate(batch.labels.tolist()):
        x, own = batch.inputs[i : i + 1], [state[i : i + 1] for state in states]
        dual = [torch.zeros_like(z) for z in own]

        def of(flat: Tensor, x: Tensor = x, label: int = label, dual: list[Tensor] = dual) -> Tensor:
            return energy(network, list(flat.view(3, 1, 6)), x, label, 2.0, dual)

        hessian = torch.autograd.functional.hessian(of, torch.cat(own).flatten())
        largest = max(largest, torch.linalg.eigvalsh(hessian).abs().max().item())
    found = largest_curvature(network, states, batch.labels, 2.0, torch.Generator().manual_seed(0)).item()
    assert 0.95 * largest < found <= largest * (1 + 1e-9)


def measured(feedback: Feedback) -> Tensor:
    assert feedback.networks is not None
    module = feedback.networks["curvature"]
    assert isinstance(module, Curvature)
    return module.largest


def test_the_step_is_measured_where_an_epoch_begins_and_kept_until_the_next(batch: Batch) -> None:
    network, rule = small("resmlp"), PredictiveCoding()
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(0))
    start = measured(feedback).clone()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1.5)
    rule.learn(network, feedback, batch, Moment(0.1, torch.Generator().manual_seed(1)))
    assert torch.equal(measured(feedback), start)
    credit = rule.learn(network, feedback, batch, Moment(0.2, torch.Generator().manual_seed(1), opens_epoch=True))
    assert measured(feedback) > start
    by_hand = PredictiveCoding(step_size=1 / measured(feedback).item()).credit(network, NOTHING, batch)
    for one, other in zip(credit.signals, by_hand.signals, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["small_cnn", "small_resnet"])
def test_batchnorm_moves_by_one_forward_pass_also_where_an_epoch_begins(name: str) -> None:
    network, batch = small(name).train(), Batch(images(3, 12), torch.arange(12) % CLASSES)
    rule = PredictiveCoding()
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(0))
    kept = {key: value.clone() for key, value in network.state_dict().items()}
    rule.learn(network, feedback, batch, Moment(0.0, torch.Generator().manual_seed(1), opens_epoch=True))
    moved = {key: value.clone() for key, value in network.state_dict().items()}
    network.load_state_dict(kept)
    network.states(batch.inputs)
    for key, value in network.state_dict().items():
        assert torch.equal(moved[key], value), key


def test_a_step_of_one_over_the_curvature_raises_no_energy_and_a_long_one_stops_the_run(
    network: StagedNetwork, batch: Batch
) -> None:
    rule = PredictiveCoding()
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(0))
    assert rule.credit(network, feedback, batch).auxiliary["risen"] == 0
    long = PredictiveCoding(step_size=5.0)
    assert long.credit(network, NOTHING, batch).auxiliary["risen"] == 1
    assert rule.objection({"risen": 0.49}) is None
    why = long.objection({"risen": 0.51})
    assert why is not None
    assert "51%" in why
    assert "step_size = 5" in why
    assert "1/λ_max" in str(rule.objection({"risen": 0.9}))


def test_a_relaxation_that_diverges_touches_no_weight(batch: Batch) -> None:
    with pytest.raises(Diverged, match="energy of the relaxed states was"):
        PredictiveCoding(step_size=1e30).learn(small("resmlp"), NOTHING, batch, Moment(0.0, torch.Generator()))


# --- in a loop of one's own ---


def test_in_any_loop_the_step_is_measured_again_where_an_epoch_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """η = 1/λ_max of the network as it stands there; every few calls where the loop does not say."""
    monkeypatch.setattr(own_loop, "LENGTH", 3)
    model, batch = Branches().double(), Batch(foreign_images(6).inputs.double(), foreign_images(6).labels)
    bound = creditscope.rule("predictive_coding", model, example=batch)
    found = []
    for said in (None, None, None, None, False, True):
        bound.backward(*batch, opens_epoch=said)
        found.append(measured(bound.feedback).item())
        with torch.no_grad():
            model.layers[0][1].weight.mul_(1.5)
    assert [one != other for one, other in pairwise(found)] == [False, False, True, False, True]
    states = bound.network.walk(batch.inputs).states
    bound.backward(*batch, opens_epoch=True)
    exact = largest_curvature(bound.network, states, batch.labels, 1.0, torch.Generator().manual_seed(5))
    torch.testing.assert_close(measured(bound.feedback), exact, rtol=0.05, atol=0)


def test_in_any_loop_a_step_that_raises_the_energy_stops_the_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_loop, "LENGTH", 2)
    model, batch = Branches(), foreign_images(6)
    bound = creditscope.rule("predictive_coding", model, example=batch, step_size=5.0, steps=4)
    again = creditscope.rule("predictive_coding", model, example=batch, step_size=5.0, steps=4)
    bound.backward(*batch)
    again.load_state_dict(bound.state_dict())
    for one in (bound, again):
        one.backward(*batch)
        model.zero_grad()
        with pytest.raises(Diverged, match=r"after 2 calls of backward: the relaxation raised the energy of 100%"):
            one.backward(*batch)
        assert all(parameter.grad is None for parameter in model.parameters())
    careful = creditscope.rule("predictive_coding", model, example=batch)
    for _ in range(5):
        careful.backward(*batch)


def test_a_penalty_is_that_of_the_forward_pass(batch: Batch) -> None:
    network, rule = small("resmlp"), PredictiveCoding(step_size=0.1)
    plain, penalised = (r.credit(network, NOTHING, batch).gradients for r in (rule, Penalty(rule, 0.3)))
    size = sum(
        (network.branch(block, h.detach()) ** 2).sum() for block, h in enumerate(network.states(batch.inputs)[:-1])
    )
    inner = {name: p for name, p in network.named_parameters() if name.startswith("blocks.")}
    assert isinstance(size, Tensor)
    for name, slope in zip(inner, torch.autograd.grad(size, list(inner.values())), strict=True):
        torch.testing.assert_close(penalised[name] - plain[name], 0.3 * slope / 5)


def test_frozen_blocks_leave_the_updates_of_the_rest_as_they_are(batch: Batch) -> None:
    network, rule = small("resmlp"), PredictiveCoding(step_size=0.1)
    whole, frozen = (r.credit(network, NOTHING, batch).gradients for r in (rule, Frozen(rule)))
    assert {name.split(".")[0] for name in frozen} == {"embed", "out_ln", "out_head"}
    assert all(torch.equal(gradient, whole[name]) for name, gradient in frozen.items())


class Doubler(StagedNetwork):
    """One block h ↦ 2h without weights that matter, logits = h: the fixed point can be written down."""

    residual = False

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
        self.blocks = nn.ModuleList([nn.Linear(2, 2, bias=False)])
        for layer, scale in ((self.embed, 1.0), (self.blocks[0], 2.0), (self.head, 1.0)):
            layer.weight.data = scale * torch.eye(2, dtype=torch.float64)

    def embedding(self, inputs: Tensor) -> Tensor:
        return self.embed(inputs)

    def readout(self, state: Tensor) -> Tensor:
        return self.head(state)


def test_plain_coding_ends_where_its_own_slopes_vanish_not_where_those_of_the_loss_do() -> None:
    """At equilibrium ε_L = -∂ℓ/∂z_L at the *relaxed* state, and ε_0 = 2 ε_1."""
    network = Doubler()
    batch = Batch(torch.tensor([[0.3, -0.4]], dtype=torch.float64), torch.tensor([0]))
    below, above = PredictiveCoding(steps=600, step_size=0.1).credit(network, NOTHING, batch).signals
    torch.testing.assert_close(below, 2 * above)
    state = (batch.inputs - below) * 2 - above  # z_0 = x + ε_0,  z_1 = 2 z_0 + ε_1
    torch.testing.assert_close(above, F.softmax(state, 1) - torch.tensor([[1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"step_size": -0.1}, "step_size must be a finite number of at least 0, got -0.1"),
        ({"rho": 0.0}, "rho must be a finite number above 0, got 0.0"),
        ({"alpha": float("inf")}, "alpha must be a finite number above 0, got inf"),
        ({"prediction": "frozen"}, "prediction must be 'free' or 'fixed', got 'frozen'"),
        ({"prediction": "fixed", "multipliers": True}, "'fixed' was given together with multipliers"),
        ({"normalisation": "half"}, "normalisation must be .*, got 'half'"),
    ],
)
def test_options_under_which_nothing_settles_are_refused(options: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        PredictiveCoding(**options)


@pytest.mark.parametrize("prediction", ["free", "fixed"])
def test_a_relaxation_too_short_to_reach_the_first_state_is_refused(batch: Batch, prediction: Any) -> None:
    with pytest.raises(InvalidInput, match="steps must be at least 4 for 3 blocks"):
        PredictiveCoding(steps=3, prediction=prediction).feedback(small("resmlp"), batch, torch.Generator())


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"multipliers": True}, {"prediction": "fixed"}], ids=str)
def test_it_learns(options: dict[str, Any]) -> None:
    spec = RunSpec(method="predictive_coding", method_options=options, network_options={"d": 64}, epochs=6)
    record = train(spec).record
    assert record.diverged is None
    assert record.accuracy > 0.4


@pytest.mark.parametrize("multipliers", [False, True])
def test_blocks_that_run_as_one_relax_as_they_do_one_by_one(multipliers: bool, batch: Batch) -> None:
    network = build("mupc_mlp", SHAPE, 4, 5, width=7, depth=5).double().eval()
    seen = forward_in_pieces(network, batch, EVERYTHING)
    for steps in (1, 2, 13):
        rule = PredictiveCoding(steps=steps, step_size=0.2, multipliers=multipliers)
        network.runs_stages_at_once = True
        together, update = rule.relax(network, seen, 0.2), rule.credit(network, Feedback(), batch)
        network.runs_stages_at_once = False
        apart, expected = rule.relax(network, seen, 0.2), rule.credit(network, Feedback(), batch)
        for found, wanted in ((together.states, apart.states), (together.tensions, apart.tensions)):
            torch.testing.assert_close(found, wanted, rtol=1e-6, atol=1e-12)
        torch.testing.assert_close(update.gradients, expected.gradients, rtol=1e-6, atol=1e-12)
