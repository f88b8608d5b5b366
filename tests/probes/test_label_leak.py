"""An answer that moves with the labels is not a prediction."""

from __future__ import annotations

import math

import pytest
import torch
from tests.probes.subjects import backprop, batches, generator, images, network
from torch import nn

from creditscope import audit
from creditscope.batch import Batch
from creditscope.probes.label_leak import label_leak, with_labels
from creditscope.verdict import Missing


@pytest.fixture(scope="module")
def net():
    return network()


def clamped(net, strength):
    """An inference phase that lets the labels pull at the logits."""
    return lambda batch: net(batch.inputs).detach() + strength * nn.functional.one_hot(batch.labels, 10)


def test_a_network_that_sees_inputs_only_does_not_leak(net):
    found = label_leak(lambda batch: net(batch.inputs).detach(), batches(256), generator())
    assert (found.share, found.flipped) == (0.0, 0)
    assert 200 < found.images < 256


@pytest.mark.parametrize("strength", [0.01, 10.0])
def test_labels_that_pull_at_the_answers_are_found_however_weakly_they_pull(net, strength):
    found = label_leak(clamped(net, strength), batches(256), generator())
    assert found.share > 0.95
    assert (found.flipped > 0.9 * found.images) == (strength > 1)


def test_answers_that_differ_from_call_to_call_tell_nothing(net):
    found = label_leak(lambda batch: torch.randn(len(batch.labels), 10), batches(256), generator())
    assert isinstance(found, Missing)
    assert "the second time" in found.text


def test_images_of_one_class_tell_nothing(net):
    one = [Batch(batch.inputs, torch.zeros_like(batch.labels)) for batch in batches(256)]
    assert "the same label" in label_leak(clamped(net, 1.0), one, generator()).text


def test_answers_that_are_not_finite_tell_nothing(net):
    found = label_leak(lambda batch: net(batch.inputs).detach() * math.nan, batches(256), generator())
    assert found.text == "the answers are not finite"


def test_labels_inside_the_inputs_are_exchanged_too():
    batch = images(5)
    other = batch.labels.roll(1)
    changed = with_labels(Batch({"x": batch.inputs, "y": batch.labels, "n": 3}, batch.labels), other)
    assert torch.equal(changed.inputs["y"], other)
    assert torch.equal(changed.inputs["x"], batch.inputs)
    assert torch.equal(changed.labels, other)


class Peeking(nn.Module):
    """Takes its labels as an input and looks."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x, y):
        return self.net(x) + 0.5 * nn.functional.one_hot(y, 10)


def test_a_model_that_is_handed_labels_and_looks_fires_with_a_warning(net):
    model = Peeking(net)
    given = [Batch((batch.inputs, batch.labels), batch.labels) for batch in batches(256)]
    report = audit(model, given, blocks="net.blocks", credit=lambda batch: _gradients(net, batch))
    assert report.findings["D8"].status == "fires"
    assert any(warning.startswith("D8 Label leak: the logits of 100.0% of") for warning in report.verdict.warnings)


def _gradients(net, batch):
    return backprop(net)(Batch(batch.inputs[0], batch.labels))


def test_states_that_a_nudged_phase_leaves_behind_fire(net):
    model = network()
    model.register_buffer("pull", torch.zeros(2048, 10))
    plain = model.readout
    model.readout = lambda state: plain(state) + model.pull[: len(state)]

    def credit(batch):
        signals = backprop(model)(batch)
        model.pull[: len(batch.labels)] = nn.functional.one_hot(batch.labels, 10).float()
        return signals

    report = audit(model, batches(256), credit=credit)
    assert report.findings["D8"].status == "fires"
    assert not model.pull.any()


def test_an_inference_phase_is_asked_even_without_credit(net):
    leaky = audit(net, batches(256), predict=clamped(net, 1.0))
    honest = audit(net, batches(256), predict=lambda batch: net(batch.inputs))
    assert (leaky.findings["D8"].status, honest.findings["D8"].status) == ("fires", "pass")
    assert honest.findings["D5"].status == "skipped"


def test_predictions_that_flip_leak_however_little_the_logits_move(net):
    def answers(batch):
        return 1 + 1e-4 * nn.functional.one_hot(batch.labels, 10).double()

    found = label_leak(answers, batches(40, 40), generator())
    assert found.share == 1.0
    assert found.flipped == found.images
