"""Forward-forward: its update is a closed form of each layer's own activity, and its predictions see no label."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.methods.conftest import CLASSES, small
from torch import Tensor

import creditscope
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.forward_forward import ForwardForward, written
from creditscope.methods.rule import Feedback, Moment
from creditscope.methods.wrappers import Frozen
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.runs.run import train
from creditscope.runs.spec import RunSpec

NOTHING = Feedback()


def closed_form(network: StagedNetwork, batch: Batch, wrong: list[int], theta: float) -> dict[str, Tensor]:
    """∓(1 - σ(±(G - θ)))·2 h xᵀ, one sample and one layer at a time; h = 0 where a unit is not active."""
    weights = dict(network.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in weights.items() if not name.startswith("head.")}
    names = ["embed.w", *(f"blocks.{index}.w" for index in range(network.depth))]
    count = len(batch.labels)
    for i, right in enumerate(batch.labels.tolist()):
        for sign, label in ((1, right), (-1, wrong[i])):
            x = batch.inputs[i].flatten().clone()
            x[:CLASSES] = 0.0
            x[label] = 1.0
            for name in names:
                h = (weights[f"{name}.weight"] @ x + weights[f"{name}.bias"]).clamp_min(0).detach()
                missed = 1 - torch.sigmoid(sign * ((h**2).sum() - theta))
                total[f"{name}.weight"] += -sign * missed * 2 * torch.outer(h, x) / count
                total[f"{name}.bias"] += -sign * missed * 2 * h / count
                x = h / h.norm()
    return total


def test_the_update_is_its_closed_form(batch: Batch) -> None:
    network, rule = small("mlp", activation="relu"), ForwardForward(theta=0.7)
    credit = rule.credit(network, NOTHING, batch)
    wrong = [(label + 1 + i % (CLASSES - 1)) % CLASSES for i, label in enumerate(batch.labels.tolist())]
    assert all(a != b for a, b in zip(wrong, batch.labels.tolist(), strict=True))
    for name, update in closed_form(network, batch, wrong, 0.7).items():
        torch.testing.assert_close(credit.gradients[name], update, rtol=1e-9, atol=1e-12)
    assert credit.signals == ()


def test_training_draws_its_wrong_labels_and_never_the_right_one(batch: Batch) -> None:
    network, rule = small("mlp"), ForwardForward()
    one, same, other = (
        rule.learn(network, NOTHING, batch, Moment(0.0, torch.Generator().manual_seed(seed))).gradients
        for seed in (1, 1, 2)
    )
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)
    turns = torch.randint(2**31, (1000,), generator=torch.Generator().manual_seed(0))
    shifts = 1 + turns % (CLASSES - 1)
    assert set(shifts.tolist()) == {1, 2, 3}


def test_weights_above_a_layer_do_not_change_its_update(batch: Batch) -> None:
    """The read-out changes none."""
    network, rule = small("mlp"), ForwardForward()
    before = rule.credit(network, NOTHING, batch).gradients
    with torch.no_grad():
        network.get_parameter("blocks.1.w.weight").mul_(2)
        network.get_parameter("head.weight").mul_(2)
    after = rule.credit(network, NOTHING, batch).gradients
    for name in before:
        lower = name.startswith(("embed.", "blocks.0."))
        assert torch.equal(before[name], after[name]) == lower, name


def test_it_predicts_the_label_with_the_largest_goodness(batch: Batch) -> None:
    network, rule = small("mlp"), ForwardForward()
    answers = rule.answers(network, NOTHING, batch.inputs)
    assert answers.shape == (5, CLASSES)
    for i in range(5):
        for label in range(CLASSES):
            state = network.embedding(written(batch.inputs[i : i + 1], torch.tensor([label]), CLASSES, 1.0))
            goodness = (state**2).sum()
            for block in network.blocks:
                state = block(state / state.norm())
                goodness = goodness + (state**2).sum()
            torch.testing.assert_close(answers[i, label], goodness.detach())


def test_a_label_replaces_the_first_features_and_leaves_the_input_alone(batch: Batch) -> None:
    kept = batch.inputs.clone()
    marked = written(batch.inputs, batch.labels, CLASSES, 3.0)
    assert torch.equal(batch.inputs, kept)
    assert torch.equal(marked[:, CLASSES:], kept.flatten(1)[:, CLASSES:])
    assert marked[:, :CLASSES].argmax(1).tolist() == batch.labels.tolist()
    assert marked[:, :CLASSES].sum(1).tolist() == [3.0] * 5


def test_frozen_blocks_leave_the_rest_as_it_is(batch: Batch) -> None:
    network, rule = small("mlp"), ForwardForward()
    whole, frozen = (r.credit(network, NOTHING, batch).gradients for r in (rule, Frozen(rule)))
    assert {name.split(".")[0] for name in frozen} == {"embed", "head"}
    assert all(torch.equal(gradient, whole[name]) for name, gradient in frozen.items())


def test_the_audit_judges_updates_and_own_predictions_and_claims_no_alignment() -> None:
    network = build("mlp", 8, 3, 0, widths=(12,), depth=2)
    generator = torch.Generator().manual_seed(2)
    batches = [Batch(torch.randn(32, 8, generator=generator), torch.arange(32) % 3) for _ in range(2)]
    rule = ForwardForward()
    source = BoundRule(rule, network, rule.feedback(network, batches[0], generator), batches[0])
    report = creditscope.audit(network, batches, credit=source)
    assert "gamma" not in report.measures
    note = report.measures["gamma_update"].note
    assert "reference: the layer's own loss, so alignment to BP is not claimed" in note
    assert "permuted labels" in report.measures["gamma_update_null"].note
    right = sum(int((rule.answers(network, NOTHING, x).argmax(1) == y).sum()) for x, y in batches)
    assert report.accuracy == (right / 64,)
    leak = report.findings["D8"]
    assert leak.status.value == "pass"
    assert "no credit at the states" in report.findings["D9"].note
    str(report)


@pytest.mark.parametrize(
    ("options", "found"), [({"theta": 0.0}, "theta must be a positive"), ({"scale": -1.0}, "scale must be a positive")]
)
def test_options_without_goodness_are_refused(options: dict[str, Any], found: str) -> None:
    with pytest.raises(InvalidInput, match=found):
        ForwardForward(**options)


def test_other_networks_and_inputs_without_room_for_a_label_are_refused(batch: Batch) -> None:
    with pytest.raises(InvalidInput, match="forward_forward was given a ResidualMLP, but is defined for 'mlp' only"):
        ForwardForward().feedback(small("resmlp"), batch, torch.Generator())
    narrow = build("mlp", 3, 5, 0, widths=(4,), depth=1)
    with pytest.raises(InvalidInput, match="3 features, but there are 5 classes"):
        ForwardForward().feedback(narrow, Batch(torch.zeros(2, 3), torch.zeros(2).long()), torch.Generator())


@pytest.mark.slow
def test_it_learns() -> None:
    spec = RunSpec(method="forward_forward", network="mlp", network_options={"depth": 2}, epochs=10)
    record = train(spec).record
    assert record.diverged is None
    assert record.accuracy > 0.15
    assert record.history[-1].gamma == ()
