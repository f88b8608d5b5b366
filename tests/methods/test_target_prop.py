"""Target propagation: an exact inverse carries J⁻¹ g_L down, which is the gradient only where J is orthogonal."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.methods.conftest import CLASSES, SHAPE, small
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.bp import Backprop
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment
from creditscope.methods.target_prop import Inverse, TargetPropagation
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.networks.student_net import StudentNet
from creditscope.runs.run import train
from creditscope.runs.spec import RunSpec


class ExactInverse(nn.Module):
    """Of h ↦ tanh(W h + b), or of h ↦ W h + b."""

    def __init__(self, weight: Tensor, bias: Tensor, *, linear: bool) -> None:
        super().__init__()
        self.back, self.bias, self.linear = torch.linalg.inv(weight.detach()), bias.detach(), linear

    def forward(self, state: Tensor) -> Tensor:
        return ((state if self.linear else torch.atanh(state)) - self.bias) @ self.back.T


def invertible(alpha: float, *, orthogonal: bool = False) -> tuple[StudentNet, Feedback]:
    """A plain network of square blocks with their exact inverses."""
    network = build("student_net", SHAPE, CLASSES, 5, d=9, depth=3, alpha=alpha, residual=False).double().eval()
    assert isinstance(network, StudentNet)
    inverses = {}
    for layer, block in enumerate(network.blocks):
        weight = block.get_parameter("w.weight")
        with torch.no_grad():
            if orthogonal:
                weight.copy_(torch.linalg.qr(weight)[0])
            else:
                weight.add_(torch.eye(9))
        inverses[f"G{layer}"] = ExactInverse(weight, block.get_parameter("w.bias"), linear=alpha == 0)
    return network, Feedback({}, nn.ModuleDict(inverses))


def gauss_newton(network: StagedNetwork, batch: Batch) -> list[Tensor]:
    """J⁻¹ g_L at every state, sample by sample, from dense Jacobians of the blocks."""
    states = [state.detach() for state in network.states(batch.inputs)]
    targets = [Backprop().credit(network, Feedback(), batch).signals[-1]]
    for layer in reversed(range(network.depth)):
        rows = []
        for state, above in zip(states[layer], targets[0], strict=True):
            jacobian = torch.autograd.functional.jacobian(lambda h, at=layer: network.branch(at, h[None])[0], state)
            rows.append(torch.linalg.solve(jacobian, above))
        targets.insert(0, torch.stack(rows))
    return targets


def test_the_error_of_an_exact_inverse_falls_with_its_step_at_order_one(batch: Batch) -> None:
    network, feedback = invertible(alpha=1.0)
    wanted = gauss_newton(network, batch)
    steps, errors = [1e-2, 1e-3, 1e-4, 1e-5], []
    for eta in steps:
        signals = TargetPropagation(eta=eta).credit(network, feedback, batch).signals
        errors.append(max(float((a - t).norm() / t.norm()) for a, t in zip(signals, wanted, strict=True)))
    for coarse, fine in pairwise(errors):
        assert math.log10(coarse / fine) == pytest.approx(1, abs=0.1)
    assert errors[-1] < 1e-3


def test_where_the_jacobian_is_orthogonal_credit_and_updates_are_those_of_backprop(batch: Batch) -> None:
    network, feedback = invertible(alpha=0.0, orthogonal=True)
    credit, truth = TargetPropagation().credit(network, feedback, batch), Backprop().credit(network, Feedback(), batch)
    for found, gradient in zip(credit.signals, truth.signals, strict=True):
        torch.testing.assert_close(found, gradient, rtol=1e-9, atol=1e-12)
    for name, gradient in truth.gradients.items():
        torch.testing.assert_close(credit.gradients[name], gradient, rtol=1e-9, atol=1e-12)


def test_elsewhere_it_is_not_the_gradient(batch: Batch) -> None:
    network, feedback = invertible(alpha=0.0)
    credit, truth = TargetPropagation().credit(network, feedback, batch), Backprop().credit(network, Feedback(), batch)
    torch.testing.assert_close(credit.signals[-1], truth.signals[-1])
    assert TargetPropagation().exact_layers(3) == {3}
    for found, gradient in zip(credit.signals[:-1], truth.signals[:-1], strict=True):
        assert (found - gradient).norm() > 0.1 * gradient.norm()


@pytest.mark.parametrize("name", ["resmlp", "student_net", "mlp"])
def test_credit_agrees_with_targets_that_are_carried_down_one_sample_at_a_time(
    name: str, batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small(name), TargetPropagation(eta=0.3)
    feedback = rule.feedback(network, batch, generator)
    assert feedback.networks is not None
    signals = rule.credit(network, feedback, batch).signals
    truth = Backprop().credit(network, Feedback(), batch).signals[-1]
    for i in range(len(batch.labels)):
        states = [state.detach() for state in network.states(batch.inputs[i : i + 1])]
        target = states[-1] - 0.3 * truth[i]
        for layer in reversed(range(network.depth)):
            inverse = feedback.networks[f"G{layer}"]
            target = (states[layer] + inverse(target) - inverse(states[layer + 1])).detach()
            torch.testing.assert_close(signals[layer][i], (states[layer] - target)[0] / 0.3, rtol=1e-8, atol=1e-11)


def test_the_inverses_learn_from_noisy_states_and_from_nothing_else(batch: Batch, generator: torch.Generator) -> None:
    """The loss by hand, and every inverse hears its own term alone."""
    network, rule = small("resmlp"), TargetPropagation(sigma=0.2)
    feedback = rule.feedback(network, batch, generator)
    assert feedback.networks is not None
    seen = forward_in_pieces(network, batch, EVERYTHING)
    found = rule.auxiliary_loss(network, feedback, seen, torch.Generator().manual_seed(3))
    noise, total, shares = torch.Generator().manual_seed(3), 0.0, []
    for layer in range(network.depth):
        state = seen.hiddens[layer]
        noisy = state + 0.2 * torch.randn(state.shape, generator=noise).double()
        again = feedback.networks[f"G{layer}"](noisy + network.blocks[layer](noisy)).detach()
        total += float(((again - noisy) ** 2).sum(1).mean())
        shares += [(again[i] - noisy[i]).norm() / noisy[i].norm() for i in range(5)]
    assert found.loss.item() == pytest.approx(total)
    assert found.residual.item() == pytest.approx(torch.stack(shares).median().item())
    assert torch.autograd.grad(found.loss, list(network.parameters()), allow_unused=True) == (None,) * len(
        list(network.parameters())
    )


def test_inverses_of_a_fixed_network_improve(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("student_net").float(), TargetPropagation()
    single = Batch(batch.inputs.float(), batch.labels)
    feedback = rule.feedback(network, single, generator)
    residuals = []
    for _ in range(120):
        noted = rule.learn(network, feedback, single, Moment(0.0, generator)).auxiliary
        assert set(noted) == {"inverse_loss", "inverse_residual"}
        residuals.append(noted["inverse_residual"].item())
    assert residuals[-1] < residuals[0] / 3
    assert rule.residual(network, feedback, single, generator).item() == pytest.approx(residuals[-1], rel=0.3)


def test_batchnorm_moves_by_one_forward_pass_a_step(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("mlp", normalisation="batch").train(), TargetPropagation()
    feedback = rule.feedback(network, batch, generator)
    kept = {key: value.clone() for key, value in network.state_dict().items()}
    rule.learn(network, feedback, batch, Moment(0.0, generator))
    moved = {key: value.clone() for key, value in network.state_dict().items()}
    network.load_state_dict(kept)
    network.states(batch.inputs)
    for key, value in network.state_dict().items():
        assert torch.equal(moved[key], value), key


def test_inverses_that_are_not_finite_stop_the_run(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), TargetPropagation()
    feedback = rule.feedback(network, batch, generator)
    assert feedback.networks is not None
    inverse = feedback.networks["G0"]
    assert isinstance(inverse, Inverse)
    nn.init.constant_(inverse.out.weight, math.inf)
    with pytest.raises(Diverged, match="the loss of the auxiliary network was"):
        rule.learn(network, feedback, batch, Moment(0.0, generator))


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"eta": 0.0}, "eta must be a positive number, got 0.0"),
        ({"sigma": math.nan}, "sigma must be a positive number, got nan"),
        ({"normalisation": "half"}, "normalisation must be .*, got 'half'"),
    ],
)
def test_options_without_a_target_are_refused(options: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        TargetPropagation(**options)


@pytest.mark.parametrize("name", ["vit_mini", "small_cnn"])
def test_states_that_are_not_flat_are_refused(name: str, batch: Batch, generator: torch.Generator) -> None:
    with pytest.raises(InvalidInput, match="target_prop needs flat ones"):
        TargetPropagation().feedback(small(name), batch, generator)


@pytest.mark.slow
def test_it_learns() -> None:
    spec = RunSpec(method="target_prop", network_options={"d": 64}, epochs=10)
    record = train(spec).record
    assert record.diverged is None
    assert record.accuracy > 0.25
