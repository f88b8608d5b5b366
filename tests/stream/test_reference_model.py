"""Layers that define their own backward: the reference model gives the gradient, their own backward the credit."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.foreign_models import CLASSES, FEATURES, WIDTH, batches, draw, images, stages, unchanged
from torch import Tensor, nn

from creditscope import audit, plain_twin
from creditscope.errors import ModelMismatch, NotTheGradient
from creditscope.stream.reference_model import OwnBackward, referenced
from creditscope.stream.trace import capture, cross_entropy

BATCH = images(8)
STREAM = ["2", "4", "6"]  # the layers between the embedding and the read-out


class Product(torch.autograd.Function):
    """x Wᵀ + b, whose backward goes through B instead of W."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, feedback: Tensor) -> Tensor:
        ctx.save_for_backward(x, feedback)
        return x @ weight.T + bias

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, feedback = ctx.saved_tensors
        return gradient @ feedback, gradient.T @ x, gradient.sum(0), None


class Aligned(nn.Linear):
    """Feedback alignment inside a layer."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        self.feedback = nn.Parameter(torch.zeros(after, before), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return Product.apply(x, self.weight, self.bias, self.feedback)


def aligned(widths: tuple[int, ...] = (FEATURES, WIDTH, WIDTH, WIDTH, WIDTH, CLASSES)) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [Aligned(before, after), nn.Tanh()]
    made = nn.Sequential(*layers[:-1])
    draw(made, 0)
    return made


def test_the_guard_refuses_and_the_twin_answers() -> None:
    model, given = aligned(), batches(3, 128)
    with pytest.raises(NotTheGradient, match=r"Pass reference=creditscope.plain_twin\(model\)"):
        audit(model, given)
    with unchanged(model):
        report = audit(model, given, reference=plain_twin(model), control_accuracy=0.1)
    assert report.provenance.guards["gradient"].passed
    assert str(report.provenance.guards["reference"]) == "passed: its states and logits are the model's"
    assert report.subject.model == "Sequential"
    assert len(report.measures["gamma"].per_layer) == len(report.measures["rho"].per_layer) == 4
    assert report.findings["D9"].status == "pass"
    assert report.verdict.outcome in ("pass", "fail", "inconclusive")


def test_the_gradient_is_the_twins_and_the_credit_what_feedback_brings() -> None:
    model = aligned()
    stream = referenced(model, plain_twin(model), None, "auto")
    trace = capture(stream, BATCH)
    signals = OwnBackward(stream.own, cross_entropy).signals(BATCH)
    layers: list[Any] = [model[index] for index in (2, 4, 6, 8)]
    h, hiddens = torch.tanh(model[0](BATCH.inputs)), []
    for layer in layers:
        hiddens.append(h)
        h = torch.tanh(layer(h)) if layer is not layers[-1] else layer(h)
    for states, matrices in (
        (trace.gradients, [layer.weight for layer in layers]),
        (signals, [layer.feedback for layer in layers]),
    ):
        expected = torch.softmax(h, 1) - nn.functional.one_hot(BATCH.labels, CLASSES)
        for index in reversed(range(4)):
            expected = expected @ matrices[index]
            torch.testing.assert_close(states[index], expected.detach(), rtol=1e-4, atol=1e-7)
            expected = expected * (1 - hiddens[index] ** 2)


def test_feedback_that_is_the_weights_is_aligned_everywhere_and_not_local() -> None:
    model = aligned()
    for layer in model[::2]:
        layer.feedback = layer.weight
    report = audit(model, batches(2, 128), reference=plain_twin(model))
    assert report.measures["gamma"].per_layer == pytest.approx((1.0,) * 4)
    assert report.findings["D9"].status == "fires"
    declared = audit(model, batches(2, 128), reference=plain_twin(model), credit_local=False)
    assert declared.findings["D9"].status != "fires"


def test_a_twin_shares_the_weights_and_follows_their_training() -> None:
    model = aligned()
    twin = plain_twin(model)
    assert [type(layer) for layer in twin[::2]] == [nn.Linear] * 5
    assert all(mine.weight is other.weight for mine, other in zip(model[::2], twin[::2], strict=True))
    with torch.no_grad():
        model[0].weight.add_(1.0)
    torch.testing.assert_close(twin(BATCH.inputs), model(BATCH.inputs))
    assert model.training
    assert not twin.training


def test_a_twin_leaves_out_backward_hooks_and_forwards_put_in_by_hand() -> None:
    hooked, patched = stages(), stages()
    hooked.layers[1].f[1].register_full_backward_hook(lambda module, given, out: (2 * given[0],))
    original = patched.layers[1].f[1]
    patched.layers[1].f[1].forward = lambda x: Product.apply(x, original.weight, original.bias, -original.weight)
    for model in (hooked, patched):
        with pytest.raises(NotTheGradient):
            audit(model, [BATCH])
        expected = audit(stages(), [BATCH]).findings
        found = audit(model, [BATCH], reference=plain_twin(model)).findings
        for code in ("D1", "D2"):
            assert found[code].value == pytest.approx(expected[code].value, rel=1e-5)


def test_a_model_of_plain_layers_has_nothing_to_map() -> None:
    with pytest.raises(ModelMismatch, match="no layer that is a torch.nn layer with a forward or backward of its own"):
        plain_twin(stages())


def test_a_reference_of_ones_own_may_have_other_names() -> None:
    model = aligned()
    plain = nn.Sequential(*[nn.Linear(layer.in_features, layer.out_features) for layer in model[::2]])
    for mine, other in zip(plain, model[::2], strict=True):
        mine.load_state_dict(other.state_dict(), strict=False)

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inlet, self.one, self.two, self.three, self.outlet = plain

        def forward(self, x: Tensor) -> Tensor:
            for layer in (self.inlet, self.one, self.two, self.three):
                x = torch.tanh(layer(x))
            out: Tensor = self.outlet(x)
            return out

    given = batches(2, 64)
    own, mapped = (audit(model, given, reference=twin) for twin in (Named(), plain_twin(model)))
    for code in ("D1", "D2", "D4"):
        assert own.findings[code].value == pytest.approx(mapped.findings[code].value, rel=1e-5)
    assert own.measures["gamma"].per_layer == pytest.approx(mapped.measures["gamma"].per_layer, rel=1e-4)


def other_weights(model: nn.Module) -> nn.Module:
    twin = plain_twin(aligned())
    draw(twin, 5)
    return twin


def shorter(model: nn.Module) -> nn.Module:
    return plain_twin(aligned((FEATURES, WIDTH, WIDTH, CLASSES)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (other_weights, r"(?s)The h_0 of the model and of its reference differ.*load_state_dict\(model.state_dict"),
        (shorter, "The model has 4 states, its reference 2"),
    ],
)
def test_a_reference_that_computes_something_else_is_refused(make: Any, message: str) -> None:
    model = aligned()
    with pytest.raises(ModelMismatch, match=message):
        audit(model, batches(2, 16), reference=make(model))


class Broadcasting(nn.Module):
    """DFA that needs the labels in its forward pass, and leaves the error behind in its layers."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(FEATURES, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Dropout(0.5)
        )
        self.net.append(nn.Linear(WIDTH, CLASSES))
        draw(self, 0)
        self.feedback = nn.Parameter(images(CLASSES, shape=(WIDTH,)).inputs, requires_grad=False)
        for layer in (self.net[2], self.net[5]):
            layer.register_full_backward_hook(lambda module, given, out: (module.error @ self.feedback,))

    def forward(self, x: Tensor, targets: Tensor | None = None, loss_function: Any = None) -> Tensor:
        logits: Tensor = self.net(x)
        if self.net.training:
            (error,) = torch.autograd.grad(loss_function(logits, targets), logits, retain_graph=True)
            for layer in self.net:
                layer.error = error
        return logits


def test_a_model_that_broadcasts_its_error_is_given_the_labels_and_keeps_nothing_of_them() -> None:
    model, given = Broadcasting(), batches(2, 64)
    with unchanged(model):
        report = audit(model, given, reference=plain_twin(model))
    twin, gamma = plain_twin(model), []
    for x, y in given:
        h0 = torch.tanh(twin.net[0](x))
        h1 = torch.tanh(twin.net[2](h0))
        error = torch.softmax(twin.net[5](h1), 1) - nn.functional.one_hot(y, CLASSES)
        g1 = error @ twin.net[5].weight
        g0 = (g1 * (1 - h1**2)) @ twin.net[2].weight
        gamma.append([torch.cosine_similarity(error @ model.feedback, g, dim=1).mean().item() for g in (g0, g1)])
    expected = torch.tensor(gamma).mean(0).tolist()
    assert report.measures["gamma"].per_layer == pytest.approx(expected, rel=1e-3, abs=1e-5)
