"""Measures that only some rules have: the noise of a random estimate, and the angles of learnt feedback."""

from __future__ import annotations

import math

import pytest
import torch

from creditscope import audit
from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.methods import methods
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.forward_gradient import ForwardGradient
from creditscope.methods.kolen_pollack import KolenPollack
from creditscope.networks.build import build
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe


def batch(count: int = 96) -> Batch:
    inputs = torch.randn(count, 12, generator=torch.Generator().manual_seed(0))
    return Batch(inputs, torch.arange(count) % 3)


def test_the_cosine_of_a_correct_estimate_stands_beside_gamma() -> None:
    network, rule = build("mlp", 12, 3, 0, widths=(40, 20), depth=2).eval(), ForwardGradient(draws=4)
    report = audit(
        network, [batch()], credit=BoundRule(rule, network, rule.feedback(network, batch(), seeded()), batch())
    )
    expected = [math.sqrt(4 / (4 + d + 1)) for d in (40, 20, 20)]
    assert report.measures["gamma_noise"].per_layer == pytest.approx(expected)
    assert report.measures["gamma"].per_layer == pytest.approx(expected, rel=0.25)
    assert "√(K/(K + d + 1))" in report.measures["gamma_noise"].note
    assert "Γ of a correct estimate" in report.to_markdown()


def test_states_that_are_not_flat_have_no_predicted_cosine() -> None:
    network, rule = build("small_cnn", (1, 8, 8), 3, 0, channels=2, width=6).eval(), ForwardGradient()
    images = Batch(torch.randn(8, 1, 8, 8, generator=seeded()), torch.arange(8) % 3)
    report = audit(network, [images], credit=BoundRule(rule, network, rule.feedback(network, images, seeded()), images))
    assert [math.isnan(value) for value in report.measures["gamma_noise"].per_layer] == [True, True, True, False]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("name", ["kolen_pollack", "weight_mirror"])
def test_the_angles_of_learnt_feedback_are_in_the_history_and_the_report(name: str) -> None:
    part = batch(60)
    data = Dataset("noise", part, part, 3, (0.0,), (1.0,))
    network = build("mlp", 12, 3, 0, widths=(8,), depth=1)
    run = fit(network, methods[name](), data, Recipe(epochs=2, batch_size=20), seed=0)
    for row in run.record.history:
        assert row.angles.keys() == {"blocks.0.w.weight", "head.weight"}
        assert all(0 < angle < 180 for angle in row.angles.values())
    report = audit(run.network, [part], credit=run.credit())
    last = run.record.history[-1].angles
    assert report.measures["feedback_angle"].value == pytest.approx(sum(last.values()) / 2)
    assert f"head.weight {last['head.weight']:.3g}" in report.measures["feedback_angle"].note


def test_fixed_feedback_has_no_angle() -> None:
    network, rule = build("mlp", 12, 3, 0, widths=(8,), depth=1).eval(), methods["fa_weights"]()
    bound = BoundRule(rule, network, rule.feedback(network, batch(), seeded()), batch())
    assert bound.angles() == {}
    assert "feedback_angle" not in audit(network, [batch()], credit=bound).measures


def test_a_planted_missing_decay_shows_in_the_angles() -> None:
    """Without decay B - W never shrinks: the angle after training is what the growth of the weights leaves."""
    part = batch(60)
    data = Dataset("noise", part, part, 3, (0.0,), (1.0,))

    def angles(rule: KolenPollack, decay: float) -> dict[str, float]:
        network = build("mlp", 12, 3, 0, widths=(8,), depth=1)
        recipe = Recipe(epochs=60, batch_size=20, learning_rate=0.02, weight_decay=decay)
        return fit(network, rule, data, recipe, seed=0).record.history[-1].angles

    with_decay, without = angles(KolenPollack(), 2.0), angles(KolenPollack(without_decay=True), 0.0)
    assert all(with_decay[name] < 0.5 * without[name] for name in without)
