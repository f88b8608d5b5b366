"""What a method itself descends, computed apart from its credit: closed forms, dense Jacobians and limits."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import CLASSES, small
from tests.methods.test_forward_forward import closed_form
from tests.methods.test_pepita import adaptive
from tests.methods.test_target_prop import gauss_newton as slow_gauss_newton
from tests.methods.test_target_prop import invertible
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.methods import methods, target_prop
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.bp import Backprop
from creditscope.methods.forward_forward import ForwardForward
from creditscope.methods.local_loss import LocalLoss, _heads
from creditscope.methods.pepita import Pepita
from creditscope.methods.rule import CreditRule, Feedback
from creditscope.methods.target_prop import TargetPropagation, gauss_newton
from creditscope.methods.wrappers import Frozen, Penalty
from creditscope.networks.staged import StagedNetwork
from creditscope.verdict import Missing, Reason


def bound(rule: CreditRule, network: StagedNetwork, batch: Batch) -> BoundRule:
    return BoundRule(rule, network, rule.feedback(network, batch, torch.Generator().manual_seed(3)), batch)


def cosine(one: Tensor, other: Tensor) -> float:
    return float(F.cosine_similarity(one.flatten().double(), other.flatten().double(), dim=0, eps=0))


def reference(source: BoundRule, batch: Batch) -> Credit:
    found = source.own_reference(batch)
    assert isinstance(found, Credit)
    return found


def test_every_rule_computes_the_reference_that_it_names_and_no_other_does(batch: Batch) -> None:
    for name, make in methods.items():
        rule = make()
        network = small("mlp", widths=(9,)) if rule.networks and "mlp" in rule.networks else small("resmlp")
        source = bound(rule, network, batch)
        assert (source.own_reference(batch) is not None) == bool(source.reference), name


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_forward_forward_refers_to_the_closed_form_of_its_loss(activation: str, batch: Batch) -> None:
    network, rule = small("mlp", activation=activation), ForwardForward(theta=0.7)
    found = reference(bound(rule, network, batch), batch)
    if activation == "relu":
        wrong = [(label + 1 + i % (CLASSES - 1)) % CLASSES for i, label in enumerate(batch.labels.tolist())]
        for name, update in closed_form(network, batch, wrong, 0.7).items():
            torch.testing.assert_close(found.gradients[name], update, rtol=1e-9, atol=1e-12)
    for name, update in rule.credit(network, Feedback(), batch).gradients.items():
        torch.testing.assert_close(found.gradients[name], update, rtol=1e-9, atol=1e-12)


def test_a_reference_has_no_penalty_and_only_what_learns(batch: Batch) -> None:
    network = small("mlp")
    plain, penalised = bound(ForwardForward(), network, batch), bound(Penalty(ForwardForward(), 0.5), network, batch)
    assert penalised.updates(batch).keys() == reference(penalised, batch).gradients.keys()
    for name, gradient in reference(plain, batch).gradients.items():
        assert torch.equal(reference(penalised, batch).gradients[name], gradient)
    moved = {name for name, u in penalised.updates(batch).items() if cosine(u, plain.updates(batch)[name]) < 0.999}
    assert any(name.startswith("blocks.") for name in moved)
    frozen = bound(Frozen(ForwardForward()), network, batch)
    assert reference(frozen, batch).gradients.keys() == frozen.updates(batch).keys()


@pytest.mark.parametrize("name", ["resmlp", "mlp", "small_cnn", "vit_mini"])
def test_local_losses_refer_to_the_gradient_of_every_heads_own_loss(name: str, batch: Batch) -> None:
    """Slow twin: one sample and one stage at a time, from the head's loss to the stage's parameters."""
    network = small(name)
    source = bound(LocalLoss(), network, batch)
    total = {key: torch.zeros_like(p) for key, p in network.named_parameters()}
    for i in range(len(batch.labels)):
        image, label = batch.inputs[i : i + 1], batch.labels[i : i + 1]
        states = [state.detach() for state in network.states(image)]
        outputs = [network.embedding(image), *network.stages_at(states[:-1])]
        for head, output in zip(_heads(source.feedback), outputs, strict=True):
            vector = output.mean((2, 3)) if output.dim() == 4 else output[:, 0] if output.dim() == 3 else output
            loss = F.cross_entropy(head(vector), label)
            found = torch.autograd.grad(loss, list(network.parameters()), allow_unused=True)
            for key, gradient in zip(total, found, strict=True):
                total[key] += 0 if gradient is None else gradient / len(batch.labels)
    reached = {key: gradient for key, gradient in total.items() if bool(gradient.any())}  # the read-out is in no stage
    assert any(network.block_of(key) is None for key in reached)
    assert {network.block_of(key) for key in reached} >= set(range(network.depth))
    for key, gradient in reached.items():
        torch.testing.assert_close(reference(source, batch).gradients[key], gradient, rtol=1e-8, atol=1e-11)


def test_normalised_local_losses_do_not_descend_their_own_loss(batch: Batch) -> None:
    network = small("resmlp")
    for normalisation, aligned in (("none", True), ("sample", False)):
        source = bound(LocalLoss(normalisation=normalisation), network, batch)  # type: ignore[arg-type]
        wanted, found = reference(source, batch), source.updates(batch)
        for a, b in zip(source.signals(batch), wanted.signals, strict=True):
            torch.testing.assert_close(a, b)  # the credit itself is the gradient of each head's loss
        name = "blocks.1.w1.weight"
        assert (cosine(found[name], wanted.gradients[name]) > 1 - 1e-9) == aligned


def test_gauss_newton_targets_are_those_of_dense_jacobians(batch: Batch) -> None:
    network, feedback = invertible(alpha=1.0)
    states = tuple(state.detach() for state in network.states(batch.inputs))
    deepest = Backprop().credit(network, Feedback(), batch).signals[-1]
    for found, wanted in zip(gauss_newton(network, states, deepest), slow_gauss_newton(network, batch), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-12)
    credit = TargetPropagation(eta=1e-5).credit(network, feedback, batch).signals
    wanted = TargetPropagation().own_reference(network, feedback, batch)
    assert isinstance(wanted, Credit)
    assert wanted.gradients == {}
    assert all(cosine(a, b) > 1 - 1e-6 for a, b in zip(credit, wanted.signals, strict=True))
    truth = Backprop().credit(network, Feedback(), batch).signals
    assert all(cosine(b, g) < 0.99 for b, g in zip(wanted.signals[:-1], truth[:-1], strict=True))


def test_gauss_newton_targets_of_an_orthogonal_jacobian_are_the_gradient(batch: Batch) -> None:
    network, feedback = invertible(alpha=0.0, orthogonal=True)
    wanted = TargetPropagation().own_reference(network, feedback, batch)
    assert isinstance(wanted, Credit)
    for found, gradient in zip(wanted.signals, Backprop().credit(network, Feedback(), batch).signals, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-12)


def test_targets_of_silent_units_unequal_widths_and_wide_states_are_not_computed(
    batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    relu = bound(TargetPropagation(), small("mlp", widths=(9,), activation="relu"), batch).own_reference(batch)
    assert isinstance(relu, Missing)
    assert (relu.reason, "singular" in relu.text) == (Reason.NOT_POSSIBLE, True)
    uneven = bound(TargetPropagation(), small("mlp"), batch).own_reference(batch)
    assert isinstance(uneven, Missing)
    assert uneven.reason is Reason.NOT_APPLICABLE
    assert "the states have 12, 9, 9, 9 features" in uneven.text
    monkeypatch.setattr(target_prop, "WIDEST", 8)
    wide = bound(TargetPropagation(), small("resmlp"), batch).own_reference(batch)
    assert isinstance(wide, Missing)
    assert "J has 12 rows" in wide.text


def test_pepita_refers_to_adaptive_feedback_and_nears_it_at_order_two_in_the_cosine(
    batch: Batch, generator: torch.Generator
) -> None:
    """The update is off by O(‖F‖), so that 1 - cos falls with ‖F‖²."""
    network = small("mlp", activation="tanh")
    direction = torch.randn(192, 4, generator=generator, dtype=torch.float64)
    direction /= direction.norm()
    wanted, misses = adaptive(network, batch, direction), []
    for size in (1e-1, 1e-2, 1e-3):
        feedback = Feedback({"F": size * direction})
        found = Pepita().own_reference(network, feedback, batch).gradients
        for name, update in wanted.items():
            torch.testing.assert_close(found[name], size * update, rtol=1e-9, atol=1e-14)
        updates = Pepita().credit(network, feedback, batch).gradients
        misses.append(max(1 - cosine(updates[name], found[name]) for name in wanted))
    for coarse, fine in pairwise(misses):
        assert math.log10(coarse / fine) == pytest.approx(2, abs=0.2)
