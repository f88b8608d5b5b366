"""Sign-symmetry: the signs of W carry the credit, the magnitudes decide how far it is from backprop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import CLASSES, SHAPE, small

from creditscope.batch import Batch
from creditscope.datasets.tensors import Dataset
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.bp import Backprop
from creditscope.methods.inside_weights import weights_of
from creditscope.methods.rule import Feedback, Moment
from creditscope.methods.sign_symmetry import SignSymmetry
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.records.run import HistoryRow
from creditscope.training.fit import fit
from creditscope.training.recipe import Recipe


def with_magnitudes_of_the_weights(network: StagedNetwork, feedback: Feedback) -> Feedback:
    """M = |W|."""
    weights = weights_of(network)
    return Feedback({name: weights[name.removeprefix("M.")].detach().abs() for name in feedback.tensors})


def test_with_the_magnitudes_of_the_weights_it_is_backprop(
    network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    rule = SignSymmetry()
    feedback = with_magnitudes_of_the_weights(network, rule.feedback(network, batch, generator))
    found, expected = rule.credit(network, feedback, batch), Backprop().credit(network, Feedback(), batch)
    for one, two in zip(found.signals, expected.signals, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-6, atol=1e-10)
    assert found.gradients.keys() == expected.gradients.keys()
    for key, gradient in found.gradients.items():
        torch.testing.assert_close(gradient, expected.gradients[key], rtol=1e-6, atol=1e-10, msg=key)


@pytest.mark.parametrize("magnitudes", ["uniform", "fixed", "redrawn"])
def test_credit_goes_back_through_signs_and_magnitudes_alone(
    magnitudes: str, batch: Batch, generator: torch.Generator
) -> None:
    """On the plain student by hand: δ_l = (1 - tanh²z_l) ∘ (δ_{l+1} (M ∘ sign W))."""
    network, rule = small("student_net", residual=False), SignSymmetry(magnitudes)  # type: ignore[arg-type]
    feedback = rule.feedback(network, batch, generator)
    found = rule.credit(network, feedback, batch)
    states = [state.detach() for state in network.states(batch.inputs)]
    weights = {name: w.detach() for name, w in weights_of(network).items()}
    credit = F.softmax(network.readout(states[-1]), 1).detach() - F.one_hot(batch.labels, CLASSES)
    names = ["head.weight", *(f"blocks.{layer}.w.weight" for layer in reversed(range(network.depth)))]
    for above, name in enumerate(names):
        layer = network.depth - above
        credit = credit @ (feedback.tensors[f"M.{name}"].double() * torch.sign(weights[name]))
        torch.testing.assert_close(found.signals[layer], credit)
        credit = credit * (1 - states[layer] ** 2)


def test_magnitudes_have_the_scale_of_the_weights_at_the_start(batch: Batch, generator: torch.Generator) -> None:
    network = build("resmlp", SHAPE, CLASSES, 0, d=64, depth=1)
    single = Batch(batch.inputs.float(), batch.labels)
    spread = network.blocks[0].w1.weight.std().item()
    uniform, fixed = (SignSymmetry(kind).feedback(network, single, generator).tensors for kind in ("uniform", "fixed"))
    assert uniform["M.blocks.0.w1.weight"].item() == pytest.approx(spread)
    assert fixed["M.blocks.0.w1.weight"].min() >= 0
    assert fixed["M.blocks.0.w1.weight"].square().mean().sqrt().item() == pytest.approx(spread, rel=0.05)
    assert "M.embed.weight" not in fixed  # it reads the data: no credit goes on from it


def test_redrawn_magnitudes_change_with_every_step_and_fixed_ones_never(
    batch: Batch, generator: torch.Generator
) -> None:
    network = small("resmlp")
    for kind, moves in (("uniform", False), ("fixed", False), ("redrawn", True)):
        rule = SignSymmetry(kind)  # type: ignore[arg-type]
        feedback = rule.feedback(network, batch, generator)
        before = {name: tensor.clone() for name, tensor in feedback.tensors.items()}
        rule.learn(network, feedback, batch, Moment(0.0, generator))
        for name, tensor in feedback.tensors.items():
            assert torch.equal(tensor, before[name]) is not (moves and name.startswith("M.")), (kind, name)


def test_redrawn_magnitudes_are_resumed_with_the_same_bits(tmp_path: Path) -> None:
    inputs = torch.randn(60, 12, generator=torch.Generator().manual_seed(0))
    part = Batch(inputs, torch.arange(60) % 3)
    data = Dataset("noise", part, part, 3, (0.0,), (1.0,))

    def train(**options: object) -> dict[str, torch.Tensor]:
        network = build("mlp", 12, 3, 0, widths=(8,), depth=2)
        recipe = Recipe(epochs=2, batch_size=20)
        return fit(network, SignSymmetry("redrawn"), data, recipe, seed=1, **options).tensors()  # type: ignore[arg-type]

    def interrupt(row: HistoryRow) -> None:
        if row.epoch == 1:
            raise KeyboardInterrupt

    whole = train()
    with pytest.raises(KeyboardInterrupt):
        train(on_epoch=interrupt, snapshot=tmp_path / "s", snapshot_seconds=0.0)
    resumed = train(snapshot=tmp_path / "s")
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_fresh_magnitudes_are_no_null(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), SignSymmetry()
    bound = BoundRule(rule, network, rule.feedback(network, batch, generator), batch)
    assert bound.redrawn(generator) is None


def test_feedback_of_another_network_is_refused(batch: Batch, generator: torch.Generator) -> None:
    rule = SignSymmetry()
    feedback = rule.feedback(small("resmlp"), batch, generator)
    with pytest.raises(ModelMismatch, match=r"do not match: .*out_head\.weight"):
        rule.credit(small("student_net"), feedback, batch)


def test_a_weight_without_magnitudes_is_refused(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), SignSymmetry()
    feedback = rule.feedback(network, batch, generator)
    lacking = replace(feedback, tensors={k: t for k, t in feedback.tensors.items() if k != "M.blocks.1.w1.weight"})
    with pytest.raises(ModelMismatch, match=r"do not match: blocks\.1\.w1\.weight"):
        rule.credit(network, lacking, batch)


def test_other_magnitudes_are_refused() -> None:
    with pytest.raises(InvalidInput, match="'uniform', 'fixed' or 'redrawn', got 'large'"):
        SignSymmetry("large")  # type: ignore[arg-type]
