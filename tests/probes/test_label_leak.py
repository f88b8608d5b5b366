"""An answer that moves with the labels is not a prediction."""

from __future__ import annotations

import math

import pytest
import torch
from tests.probes.subjects import backprop, batches, generator, images, network
from torch import nn

from creditscope import audit
from creditscope.batch import Batch
from creditscope.probes.label_leak import label_leak, other_labels, with_labels
from creditscope.verdict import Missing


@pytest.fixture(scope="module")
def net():
    return network()


def clamped(net, strength):
    """An inference phase that lets the labels pull at the logits."""
    return lambda batch: net(batch.inputs).detach() + strength * nn.functional.one_hot(batch.labels, 10)


def test_a_network_that_sees_inputs_only_does_not_leak(net):
    found = label_leak(lambda batch: net(batch.inputs).detach(), batches(256), generator())
    assert (found.share, found.flipped, found.images, found.trials) == (0.0, 0, 256, 9)


@pytest.mark.parametrize("strength", [0.01, 10.0])
def test_labels_that_pull_at_the_answers_are_found_however_weakly_they_pull(net, strength):
    found = label_leak(clamped(net, strength), batches(256), generator())
    assert found.share == 1.0
    assert (found.flipped > 0.9 * found.images) == (strength > 1)


def scaled(net, factor, dose, offset=0.0):
    """Logits of any scale and offset, with a leak of so much of their spread over the classes."""

    def answers(batch):
        plain = net(batch.inputs).detach().double()
        spread = (plain - plain.mean(1, keepdim=True)).norm(dim=1).median()
        return factor * (plain + dose * spread * nn.functional.one_hot(batch.labels, 10)) + offset * factor

    return answers


@pytest.mark.parametrize("offset", [0.0, 1e5])
@pytest.mark.parametrize("factor", [1e-30, 1.0, 1e30])
def test_a_leak_of_a_thousandth_of_the_logits_scale_is_found_at_any_scale(net, factor, offset):
    assert label_leak(scaled(net, factor, 1e-3, offset), batches(256), generator()).share == 1.0
    assert label_leak(scaled(net, factor, 1e-6, offset), batches(256), generator()).share == 0.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 300.0])
def test_rounding_that_depends_on_the_labels_is_no_leak(net, dtype, offset):
    """The images run sorted by their labels, so that sums round otherwise; then the last digits move by one."""

    def answers(batch):
        order = batch.labels.argsort()
        logits = net(batch.inputs[order])[order.argsort()].detach().to(dtype) + offset
        return torch.where(batch.labels[:, None] % 2 == 0, logits, logits * (1 + torch.finfo(dtype).eps))

    found = label_leak(answers, batches(256), generator())
    assert found.share == 0.0


def leaking_in(rows):
    """A leak in some images only."""

    def spoilt(net):
        def answers(batch):
            logits = net(batch.inputs).detach()
            return logits + rows(batch)[:, None] * 0.01 * nn.functional.one_hot(batch.labels, 10)

        return answers

    return spoilt


@pytest.mark.parametrize(
    ("rows", "leaks"),
    [
        (lambda batch: torch.arange(len(batch.labels)) == 7, 2),  # one image of each batch
        (lambda batch: (torch.arange(len(batch.labels)) == 7) & (batch.labels == 3), 2),  # if it is shown one label
        (lambda batch: batch.labels == 4, 256),  # one class, which every image is shown once
    ],
)
def test_a_leak_in_one_image_or_in_one_class_is_found(net, rows, leaks):
    found = label_leak(leaking_in(rows)(net), batches(256), generator())
    assert found.share * found.images == pytest.approx(leaks)


def test_the_images_that_leak_are_those_found_by_changing_one_label_at_a_time(net):
    """The slow twin: every image is shown every other label while the other images keep theirs."""
    answers = leaking_in(lambda batch: batch.inputs[:, 0] > 0.5)(net)
    (batch,) = batches(40, 40)
    true, slow = answers(batch), 0
    for image in range(40):
        for label in sorted(set(batch.labels.tolist()) - {int(batch.labels[image])}):
            other = batch.labels.clone()
            other[image] = label
            if (answers(Batch(batch.inputs, other))[image] - true[image]).norm() > 1e-3:
                slow += 1
                break
    found = label_leak(answers, [batch], generator())
    assert 0 < slow < 40
    assert found.share * 40 == pytest.approx(slow)


def test_every_labelling_gives_every_image_another_label_and_ten_classes_are_all_shown():
    labels = torch.arange(60) % 10
    shown = torch.stack([labels, *other_labels(labels, generator())])
    assert shown.shape == (10, 60)
    assert all(sorted(column) == list(range(10)) for column in shown.T.tolist())
    many = torch.arange(300)
    assert len(list(other_labels(many, generator()))) == 9
    assert all(bool((other != many).all()) for other in other_labels(many, generator()))
    assert list(other_labels(torch.zeros(5, dtype=torch.long), generator())) == []


def test_answers_that_depend_on_the_other_images_of_the_batch_are_no_leak(net):
    def answers(batch):
        logits = net(batch.inputs).detach()
        return (logits - logits.mean(0)) / logits.std(0) + logits.roll(1, 0)  # batch statistics, and a neighbour

    assert label_leak(answers, batches(256), generator()).share == 0.0


def test_answers_that_drift_from_call_to_call_tell_nothing(net):
    calls = iter(range(10**6))

    def answers(batch):
        return net(batch.inputs).detach() * (1 + 2e-5 * next(calls))

    assert "the second time" in label_leak(answers, batches(256), generator()).text


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


@pytest.mark.parametrize("form", [lambda y: y.unsqueeze(1).float(), lambda y: nn.functional.one_hot(y, 10)])
def test_labels_among_the_inputs_are_exchanged_in_any_form(form):
    batch = images(40)
    other = batch.labels.roll(1)
    changed = with_labels(Batch((batch.inputs, form(batch.labels)), batch.labels), other)
    assert torch.equal(changed.inputs[1], form(other))
    assert torch.equal(changed.inputs[0], batch.inputs)


@pytest.mark.parametrize(("start", "on", "off"), [(0, 1.0, 0.0), (13, 2.5, -0.5), (30, 1.0, 0.0)])
def test_labels_written_into_the_images_are_exchanged(start, on, off):
    """As Forward-Forward does."""
    batch = images(64)

    def written(labels):
        inputs = batch.inputs.clone()
        inputs[:, start : start + 10] = torch.where(nn.functional.one_hot(labels, 10).bool(), on, off)
        return inputs

    other = batch.labels.roll(1)
    changed = with_labels(Batch(written(batch.labels), batch.labels), other)
    assert torch.equal(changed.inputs, written(other))


def test_inputs_that_hold_no_labels_stay():
    for count in (2, 64):
        batch = images(count)
        binary = Batch((batch.inputs > 0).float(), batch.labels)
        for given in (batch, binary):
            assert torch.equal(with_labels(given, batch.labels.roll(1)).inputs, given.inputs)


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
