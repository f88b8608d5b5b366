"""One forward and one backward pass give every state and every sample's own gradient."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.foreign_models import CLASSES, FEATURES, WIDTH, Branches, Tokens, images, stages
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.networks.build import build
from creditscope.stream.find import find_stream
from creditscope.stream.trace import _derivatives, capture, cross_entropy, losses_at, output_error, per_sample

BATCH = images(11)


def network(depth: int = 3, **options: Any) -> nn.Module:
    return build("resmlp", FEATURES, CLASSES, 0, d=WIDTH, depth=depth, w2_std=0.3, **options)


def alone(batch: Batch, index: int) -> Batch:
    return Batch(batch.inputs[index : index + 1], batch.labels[index : index + 1])


@pytest.mark.parametrize(("make", "blocks"), [(network, None), (Branches, "layers"), (stages, "layers")])
def test_each_gradient_is_that_of_the_sample_alone(make: Any, blocks: str | None) -> None:
    stream = find_stream(make(), blocks)
    together = capture(stream, BATCH)
    for index in range(len(BATCH.labels)):
        single = capture(stream, alone(BATCH, index))
        for layer, gradient in enumerate(single.gradients):
            torch.testing.assert_close(together.gradients[layer][index], gradient[0], rtol=1e-4, atol=1e-7)
            torch.testing.assert_close(together.hiddens[layer][index], single.hiddens[layer][0], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(together.losses[index], single.losses[0])


def test_the_error_is_softmax_minus_onehot() -> None:
    trace = capture(find_stream(network()), BATCH)
    expected = torch.softmax(trace.logits, 1) - F.one_hot(BATCH.labels, CLASSES)
    torch.testing.assert_close(trace.error, expected)


def test_the_error_of_logits_alone_is_each_samples_own() -> None:
    logits = images(11, seed=3, shape=(CLASSES,)).inputs
    expected = torch.softmax(logits, 1) - F.one_hot(BATCH.labels, CLASSES)
    torch.testing.assert_close(output_error(logits, BATCH.labels), expected)


def test_with_an_identity_for_read_out_the_deepest_gradient_is_the_error() -> None:
    model = nn.Sequential(nn.Linear(FEATURES, CLASSES), nn.Linear(CLASSES, CLASSES))
    trace = capture(find_stream(model, ""), BATCH)
    torch.testing.assert_close(trace.gradients[-1], trace.error)


@given(st.permutations(range(11)))
def test_permuted_samples_have_permuted_gradients(order: list[int]) -> None:
    stream = find_stream(network())
    one, other = capture(stream, BATCH), capture(stream, Batch(BATCH.inputs[order], BATCH.labels[order]))
    for ours, theirs in zip(one.gradients, other.gradients, strict=True):
        torch.testing.assert_close(ours[order], theirs, rtol=1e-4, atol=1e-7)


@given(st.integers(2, 6))
def test_duplicated_samples_keep_their_gradients(copies: int) -> None:
    stream = find_stream(network())
    one = capture(stream, BATCH)
    many = capture(stream, Batch(BATCH.inputs.repeat(copies, 1), BATCH.labels.repeat(copies)))
    for ours, theirs in zip(one.gradients, many.gradients, strict=True):
        torch.testing.assert_close(ours.repeat(copies, 1), theirs, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("factor", [1e-12, 1e-3, 1e6, 1e12])
def test_behind_a_terminal_norm_a_stream_scaled_up_has_a_gradient_scaled_down(factor: float) -> None:
    model = network(depth=0).double()
    with torch.no_grad():
        model.out_ln.eps = 0.0
    batch = Batch(BATCH.inputs.double(), BATCH.labels)
    before = capture(find_stream(model), batch)
    with torch.no_grad():
        model.embed.weight.mul_(factor)
        model.embed.bias.mul_(factor)
    after = capture(find_stream(model), batch)
    torch.testing.assert_close(after.hiddens[0], before.hiddens[0] * factor)
    torch.testing.assert_close(after.gradients[0] * factor, before.gradients[0])


class Counting(nn.Module):
    """Counts how often it is run forwards and backwards."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.forwards, self.backwards = inner, 0, 0

    def forward(self, h: Tensor) -> Tensor:
        self.forwards += 1
        out: Tensor = self.inner(h)
        out.register_hook(self._count)
        return out

    def _count(self, gradient: Tensor) -> None:
        self.backwards += 1


def test_one_forward_and_one_backward_pass() -> None:
    model = network()
    for index, block in enumerate(model.blocks):
        model.blocks[index] = Counting(block)
    capture(find_stream(model), BATCH)
    assert [(block.forwards, block.backwards) for block in model.blocks] == [(1, 1)] * 3


def test_nothing_is_left_on_the_parameters_and_grad_mode_is_as_before() -> None:
    model = network()
    with torch.no_grad():
        trace = capture(find_stream(model), BATCH)
        assert not torch.is_grad_enabled()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not any(tensor.requires_grad for tensor in (*trace.hiddens, *trace.gradients, trace.logits, trace.losses))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_compared_in_float32(dtype: torch.dtype) -> None:
    logits = images(4, shape=(CLASSES,)).inputs.to(dtype)
    losses = cross_entropy(logits, BATCH.labels[:4])
    assert losses.dtype is torch.float32
    torch.testing.assert_close(losses, F.cross_entropy(logits.float(), BATCH.labels[:4], reduction="none"))


def test_another_loss_is_differentiated_in_its_place() -> None:
    def squared(logits: Tensor, labels: Tensor) -> Tensor:
        return (logits - F.one_hot(labels, CLASSES)).square().sum(1)

    trace = capture(find_stream(network()), BATCH, squared)
    torch.testing.assert_close(trace.error, 2 * (trace.logits - F.one_hot(BATCH.labels, CLASSES)))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_a_loss_that_is_not_one_per_sample_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"loss_fn returned shape .* for 11 samples") as caught:
        per_sample(lambda logits, labels: torch.zeros(shape), torch.zeros(11, 2), BATCH.labels)
    assert "Gradients of a mean contain 1/N" in str(caught.value)
    assert 'reduction="none"' in str(caught.value)


def test_a_loss_that_cannot_be_differentiated_is_refused() -> None:
    with pytest.raises(ModelMismatch, match="does not depend on its h_0 as returned"):
        capture(find_stream(network()), BATCH, lambda logits, labels: logits.detach().sum(1))


def test_a_state_that_the_loss_does_not_use_is_named() -> None:
    used, unused = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
    with pytest.raises(ModelMismatch, match="The loss of Net does not depend on its h_1 as returned"):
        _derivatives(used.sum(1), {"h_0": used, "h_1": unused}, "Net")


def test_a_loss_that_is_no_tensor_is_refused() -> None:
    with pytest.raises(InvalidInput, match="loss_fn returned a float, not a tensor"):
        per_sample(lambda logits, labels: 0.0, torch.zeros(11, 2), BATCH.labels)


def test_a_capture_settles_the_read_rule_only_where_it_is_asked_to() -> None:
    stream = find_stream(Tokens(), "layers")
    stream.rule = "auto"
    capture(stream, images(4, shape=(5, FEATURES)))
    assert stream.rule == "auto"
    capture(stream, images(4, shape=(5, FEATURES)), settle=True)
    assert stream.rule == "first"


def test_losses_at_no_shift_are_the_losses() -> None:
    stream = find_stream(network())
    losses = losses_at(stream, BATCH, {})
    torch.testing.assert_close(losses, capture(stream, BATCH).losses)
    assert not losses.requires_grad


@pytest.mark.parametrize("layer", [0, 1, 2, 3])
def test_a_shift_enters_at_its_layer_and_nowhere_else(layer: int) -> None:
    model = network()
    shift = images(11, seed=4, shape=(WIDTH,)).inputs
    state = model.embedding(BATCH.inputs)
    for index in range(model.depth + 1):
        state = state + shift if index == layer else state
        state = state + model.blocks[index](state) if index < model.depth else state
    expected = cross_entropy(model.readout(state), BATCH.labels)
    torch.testing.assert_close(losses_at(find_stream(model), BATCH, {layer: shift}), expected.detach())
