"""PEPITA: products of two passes, and adaptive feedback in the limit of a small projection."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from tests.methods.conftest import small
from tests.methods.twins import errors
from torch import Tensor

import creditscope
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.pepita import Pepita
from creditscope.methods.rule import Feedback
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.runs.run import train
from creditscope.runs.spec import RunSpec


def layer_names(network: StagedNetwork) -> list[str]:
    return ["embed.w", *(f"blocks.{index}.w" for index in range(network.depth))]


def test_updates_are_products_of_activities_sample_by_sample(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("mlp"), Pepita(strength=0.5)
    feedback = rule.feedback(network, batch, generator)
    found = rule.credit(network, feedback, batch)
    projection = feedback.tensors["F"].double()
    total = {name: torch.zeros_like(p) for name, p in network.named_parameters()}
    for i, error in enumerate(errors(network, batch)):
        x = batch.inputs[i].flatten()
        moved = x - projection @ error
        first, second = (network.states(side[None]) for side in (x, moved))
        below = [moved, *(state[0].detach() for state in second)]
        for index, name in enumerate(layer_names(network)):
            change = (first[index] - second[index])[0].detach()
            total[f"{name}.weight"] += torch.outer(change, below[index]) / 5
            total[f"{name}.bias"] += change / 5
        total["head.weight"] += torch.outer(error, below[-1]) / 5
        total["head.bias"] += error / 5
    assert found.signals == ()
    assert found.gradients.keys() == total.keys()
    for name, update in total.items():
        torch.testing.assert_close(found.gradients[name], update, rtol=1e-7, atol=1e-10)


def adaptive(network: StagedNetwork, batch: Batch, projection: Tensor) -> dict[str, Tensor]:
    """J_l F e h_{l-1}ᵀ, mean over the batch, by Jacobians of the states; at the first layer f'(z) ⊙ (W_0 F e) xᵀ."""
    total = {
        f"{name}.weight": torch.zeros_like(network.get_parameter(f"{name}.weight")) for name in layer_names(network)
    }
    for i, error in enumerate(errors(network, batch)):
        x = batch.inputs[i].flatten()
        below = [x, *(state[0].detach() for state in network.states(x[None]))]
        for index, name in enumerate(layer_names(network)):
            jacobian = torch.autograd.functional.jacobian(lambda v, at=index: network.states(v[None])[at][0], x)
            total[f"{name}.weight"] += torch.outer(jacobian @ projection @ error, below[index]) / len(batch.labels)
    return total


def test_the_update_over_the_size_of_the_projection_tends_to_adaptive_feedback_at_order_one(
    batch: Batch, generator: torch.Generator
) -> None:
    network = small("mlp", activation="tanh")
    direction = torch.randn(192, 4, generator=generator, dtype=torch.float64)
    direction /= direction.norm()
    wanted = adaptive(network, batch, direction)
    misses = []
    for size in (1e-1, 1e-2, 1e-3):
        found = Pepita().credit(network, Feedback({"F": size * direction}), batch).gradients
        misses.append(max(float((found[name] / size - w).norm() / w.norm()) for name, w in wanted.items()))
    for coarse, fine in pairwise(misses):
        assert math.log10(coarse / fine) == pytest.approx(1, abs=0.1)
    assert misses[-1] < 1e-2


def test_at_the_first_layer_the_limit_is_feedback_alignment_with_w_times_f(
    batch: Batch, generator: torch.Generator
) -> None:
    """f'(z) ⊙ (e Bᵀ), B = W_0 F."""
    network = small("mlp", activation="tanh")
    direction = torch.randn(192, 4, generator=generator, dtype=torch.float64)
    weight = network.get_parameter("embed.w.weight").detach()
    state = network.embedding(batch.inputs).detach()
    credit = torch.stack(errors(network, batch)) @ (weight @ direction).T
    by_hand = ((1 - state**2) * credit).T @ batch.inputs.flatten(1) / 5
    torch.testing.assert_close(adaptive(network, batch, direction)["embed.w.weight"], by_hand)


def test_the_projection_follows_its_law(batch: Batch, generator: torch.Generator) -> None:
    projection = Pepita(strength=0.3).feedback(small("mlp"), batch, generator).tensors["F"]
    bound = 0.3 * math.sqrt(6 / 192)
    assert projection.shape == (192, 4)
    assert 0.95 * bound < projection.abs().max() <= bound
    assert abs(projection.mean()) < 0.1 * bound


def test_the_audit_compares_its_updates_with_fresh_projections() -> None:
    network, rule = build("mlp", 8, 3, 0, widths=(12,), depth=2), Pepita()
    generator = torch.Generator().manual_seed(2)
    batches = [Batch(torch.randn(32, 8, generator=generator), torch.arange(32) % 3) for _ in range(2)]
    source = BoundRule(rule, network, rule.feedback(network, batches[0], generator), batches[0])
    report = creditscope.audit(network, batches, credit=source)
    assert "reference: adaptive feedback, B = W_0 F" in report.measures["gamma_update"].note
    assert "10 draws with fresh feedback" in report.measures["gamma_update_null"].note
    assert report.measures["gamma_update"].per_tensor["head.weight"] > 0.99


@pytest.mark.parametrize("strength", [0.0, -1.0, math.inf])
def test_a_projection_of_no_size_is_refused(strength: float) -> None:
    with pytest.raises(InvalidInput, match="strength must be a positive number"):
        Pepita(strength=strength)


def test_layers_without_a_defined_update_are_refused(batch: Batch, generator: torch.Generator) -> None:
    for network in (small("mlp", normalisation="layer"), small("mlp", residual=True, widths=(9,))):
        with pytest.raises(InvalidInput, match="defines no update for their parameters"):
            Pepita().feedback(network, batch, generator)
    with pytest.raises(InvalidInput, match="pepita was given a StudentNet"):
        Pepita().feedback(small("student_net"), batch, generator)


@pytest.mark.slow
def test_it_learns() -> None:
    record = train(RunSpec(method="pepita", network="mlp", network_options={"depth": 1}, epochs=10)).record
    assert record.diverged is None
    assert record.accuracy > 0.2
