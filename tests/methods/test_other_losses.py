"""Rules under another loss than cross-entropy: the credit is that of the loss that is trained."""

from __future__ import annotations

import pytest
import torch
from tests.methods.conftest import images, small
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import exact_cosines
from creditscope.methods import methods
from creditscope.methods.bp import Backprop
from creditscope.methods.curvature import largest_curvature
from creditscope.methods.ep import EquilibriumPropagation
from creditscope.methods.local import forward_in_pieces, read_out
from creditscope.methods.loss import LOSSES, each_loss, judged
from creditscope.methods.predictive_coding import PredictiveCoding
from creditscope.methods.relaxation import nudged_loss
from creditscope.methods.rule import EVERYTHING, Feedback, run_generator

LABELS = torch.tensor([0, 3, 1, 1, 2])
NAMED = [name for name, function in LOSSES.items() if function is not None]


def by_hand(name: str, logits: Tensor, label: int) -> Tensor:
    """The loss of one sample, class by class."""
    total = torch.zeros((), dtype=logits.dtype)
    for j, z in enumerate(logits):
        target = 1.0 if j == label else 0.0
        if name == "squared_error":
            total = total + (z - target) ** 2 / 2
        else:
            share = 1 / (1 + torch.exp(-z))
            total = total - target * torch.log(share) - (1 - target) * torch.log(1 - share)
    return total


@pytest.mark.parametrize("name", NAMED)
def test_a_named_loss_is_its_formula(name: str) -> None:
    logits = torch.randn(5, 4, dtype=torch.float64, generator=run_generator(3))
    found = each_loss(LOSSES[name], logits, LABELS)
    torch.testing.assert_close(
        found, torch.stack([by_hand(name, z, y) for z, y in zip(logits, LABELS.tolist(), strict=True)])
    )


@pytest.mark.parametrize("name", NAMED)
def test_the_error_at_the_logits_is_output_minus_target(name: str) -> None:
    """e = z - y for half the squared error, σ(z) - y for cross-entropy of every class alone."""
    logits = torch.randn(5, 4, dtype=torch.float64, generator=run_generator(4))
    outputs = logits if name == "squared_error" else torch.sigmoid(logits)
    torch.testing.assert_close(judged(LOSSES[name], logits, LABELS).error, outputs - torch.eye(4)[LABELS].double())


@pytest.mark.parametrize("name", NAMED)
def test_fixed_prediction_is_backprop_under_every_loss(name: str) -> None:
    network, batch = small("resmlp"), Batch(images(7), LABELS)
    network.loss_fn = LOSSES[name]
    exact = Backprop().credit(network, Feedback(), batch)
    found = PredictiveCoding(prediction="fixed").credit(network, Feedback(), batch)
    for parameter, gradient in exact.gradients.items():
        torch.testing.assert_close(found.gradients[parameter], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMED)
def test_equilibrium_propagation_follows_the_gradient_of_the_loss_that_is_trained(name: str) -> None:
    network, batch = small("resmlp"), Batch(images(7), LABELS)
    network.loss_fn = LOSSES[name]
    rule = EquilibriumPropagation(steps=200)
    seen = forward_in_pieces(network, batch, EVERYTHING)
    states = network.states(batch.inputs)
    exact = torch.autograd.grad(each_loss(network.loss_fn, network.readout(states[-1]), LABELS).sum(), states)
    for found, gradient in zip(rule.signals(network, Feedback(), seen), exact, strict=True):
        assert exact_cosines(found, gradient).min() > 0.999


@pytest.mark.parametrize("name", NAMED)
def test_the_pull_at_the_top_and_the_curvature_are_those_of_the_loss(name: str) -> None:
    network = small("resmlp")
    network.loss_fn = LOSSES[name]
    states = [state.detach() for state in network.states(images(7))]
    one = torch.ones(5, dtype=torch.float64)
    losses, pull = nudged_loss(network, states[-1], LABELS, one)
    torch.testing.assert_close(pull, read_out(network, states[-1], LABELS).slope)
    torch.testing.assert_close(losses, each_loss(network.loss_fn, network.readout(states[-1]), LABELS))

    def energy(flat: Tensor) -> Tensor:
        """ℓ + ½ Σ‖ε_l‖² of the first sample, states laid end to end."""
        z = list(flat.view(len(states), 1, -1))
        predicted = [states[0][:1], *network.stages_at(z[:-1])]
        squares = torch.stack([(h - p).square().sum() for h, p in zip(z, predicted, strict=True)]).sum()
        return each_loss(network.loss_fn, network.readout(z[-1]), LABELS[:1]).sum() + squares / 2

    hessian = torch.autograd.functional.hessian(energy, torch.cat([s[:1] for s in states]).flatten())
    largest = torch.linalg.eigvalsh(hessian).abs().max()
    found = largest_curvature(network, [s[:1] for s in states], LABELS[:1], 1.0, run_generator(0))
    assert found <= largest * (1 + 1e-9)
    torch.testing.assert_close(found, largest, rtol=0.1, atol=0)


def test_the_state_bridge_reads_its_slope_off_the_loss_that_is_trained() -> None:
    network, batch = small("resmlp"), Batch(images(7), LABELS)
    rule = methods["state_bridge"]()
    feedback = rule.feedback(network, batch, run_generator(1))
    seen = forward_in_pieces(network, batch, EVERYTHING)
    plain = rule.signals(network, feedback, seen)
    network.loss_fn = lambda logits, labels: 3 * torch.nn.functional.cross_entropy(logits, labels, reduction="none")
    for tripled, once in zip(rule.signals(network, feedback, seen), plain, strict=True):
        torch.testing.assert_close(tripled, 3 * once)


def test_a_mean_is_refused_where_every_sample_settles_by_a_loss_of_its_own() -> None:
    network, batch = small("resmlp"), Batch(images(7), LABELS)
    network.loss_fn = lambda logits, labels: logits.square().mean()
    with pytest.raises(
        InvalidInput, match=r"What loss_fn returned has the shape \(\), for 5 samples\.\n.*one loss per"
    ):
        EquilibriumPropagation().credit(network, Feedback(), batch)
