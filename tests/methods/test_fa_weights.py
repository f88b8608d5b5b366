"""FA inside every weight: W forward, B backward, and nothing that escapes it unnoticed."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import CLASSES, SHAPE, images, small
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.methods import methods
from creditscope.methods.bp import Backprop
from creditscope.methods.fa_weights import WeightFeedback
from creditscope.methods.inside_weights import FeedbackMode
from creditscope.methods.rule import Feedback, Scope
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork


class Plain(StagedNetwork):
    """embed Linear | one block of the test's choice | Linear."""

    residual = False

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.embed = nn.Linear(192, 12)
        self.blocks = nn.ModuleList([block])
        self.head = nn.Linear(12, CLASSES)

    def embedding(self, inputs: Tensor) -> Tensor:
        out: Tensor = self.embed(inputs.flatten(1))
        return out

    def readout(self, state: Tensor) -> Tensor:
        out: Tensor = self.head(state)
        return out


def weights_as_feedback(network: nn.Module) -> Feedback:
    """B = W."""
    layers = {name: m for name, m in network.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    return Feedback({f"{name}.weight": layer.weight.detach().clone() for name, layer in layers.items()})


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("penalty", [0.0, 1e-2])
@pytest.mark.parametrize("name", ["resmlp", "vit_mini", "small_cnn", "small_resnet"])
def test_feedback_equal_to_the_weights_is_backprop(name: str, penalty: float, training: bool, batch: Batch) -> None:
    """At full size and in float32, as it trains."""
    single = Batch(batch.inputs.float(), batch.labels)
    twins = [build(name, SHAPE, CLASSES, 3).train(training) for _ in range(2)]
    scope = Scope(penalty=penalty)
    found = WeightFeedback().credit(twins[0], weights_as_feedback(twins[0]), single, scope)
    expected = Backprop().credit(twins[1], Feedback(), single, scope)
    for one, other in zip(found.signals, expected.signals, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    assert found.gradients.keys() == expected.gradients.keys()
    for key, gradient in found.gradients.items():
        torch.testing.assert_close(gradient, expected.gradients[key], rtol=1e-5, atol=1e-5, msg=key)
    assert WeightFeedback().exact_layers(twins[0].depth) == frozenset()


def test_in_float64_it_is_backprop_to_the_last_digits(network: StagedNetwork, batch: Batch) -> None:
    found = WeightFeedback().credit(network, weights_as_feedback(network), batch)
    expected = Backprop().credit(network, Feedback(), batch)
    for key, gradient in found.gradients.items():
        torch.testing.assert_close(gradient, expected.gradients[key], rtol=1e-10, atol=1e-14, msg=key)


def test_credit_goes_back_through_the_feedback_alone(batch: Batch, generator: torch.Generator) -> None:
    """On the plain student by hand: δ_l = (1 - tanh²z_l) ∘ (δ_{l+1} B_{l+1}),  ∂/∂W_l = δ_l h_lᵀ."""
    network, rule = small("student_net", residual=False), WeightFeedback()
    feedback = rule.feedback(network, batch, generator)
    found = rule.credit(network, feedback, batch)
    states = [state.detach() for state in network.states(batch.inputs)]
    error = F.softmax(network.readout(states[-1]), 1).detach() - F.one_hot(batch.labels, CLASSES)
    credit = error @ feedback.tensors["head.weight"].double()
    torch.testing.assert_close(found.gradients["head.weight"], error.T @ states[-1] / len(error))
    for layer in reversed(range(network.depth)):
        torch.testing.assert_close(found.signals[layer + 1], credit)
        delta = credit * (1 - states[layer + 1] ** 2)
        torch.testing.assert_close(found.gradients[f"blocks.{layer}.w.weight"], delta.T @ states[layer] / len(error))
        credit = delta @ feedback.tensors[f"blocks.{layer}.w.weight"].double()
    torch.testing.assert_close(found.signals[0], credit)
    torch.testing.assert_close(found.gradients["embed.weight"], credit.T @ batch.inputs.flatten(1) / len(error))


def test_the_forward_pass_is_the_networks_own(network: StagedNetwork, batch: Batch, generator: torch.Generator) -> None:
    rule = WeightFeedback()
    credit = rule.credit(network, rule.feedback(network, batch, generator), batch)
    torch.testing.assert_close(credit.loss, F.cross_entropy(network(batch.inputs), batch.labels).detach())


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(
    "options",
    [
        {"padding": 1},
        {"stride": 2, "padding": 2, "dilation": 2},
        {"groups": 3, "bias": False},
        {"padding": "same", "dilation": 3},
        {"padding": "valid"},
        {"padding": 1, "padding_mode": "reflect"},
    ],
    ids=str,
)
@pytest.mark.parametrize("size", [3, 4])
def test_convolutions_of_every_kind_go_back_through_the_feedback(options: dict[str, Any], size: int) -> None:
    """∂/∂x is that of a convolution with B, ∂/∂W and ∂/∂b are those of the convolution itself."""
    layer, other = (nn.Conv2d(3, 6, size, **options).double() for _ in range(2))
    mode = FeedbackMode({"weight": layer.weight}, {"weight": other.weight.detach().float()}, "a layer")
    other.weight.data = other.weight.data.float().double()
    inputs = images(3).requires_grad_()
    with mode:
        out = layer(inputs)
    expected = layer(inputs)
    torch.testing.assert_close(out, expected)
    cotangent = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    into, *own = torch.autograd.grad(out, [inputs, *layer.parameters()], cotangent)
    (through,) = torch.autograd.grad(other(inputs), inputs, cotangent)
    torch.testing.assert_close(into, through)
    for one, two in zip(own, torch.autograd.grad(expected, list(layer.parameters()), cotangent), strict=True):
        torch.testing.assert_close(one, two)


def test_feedback_has_the_shapes_of_the_weights_and_the_scale_of_their_fan_out(generator: torch.Generator) -> None:
    network = build("small_cnn", (3, 32, 32), 10, 0)
    feedback = WeightFeedback().feedback(network, Batch(torch.zeros(1), torch.zeros(1)), generator).tensors
    weights = weights_as_feedback(network).tensors
    assert {name: tensor.shape for name, tensor in feedback.items()} == {
        name: tensor.shape for name, tensor in weights.items()
    }
    assert feedback["blocks.1.conv.weight"].std().item() == pytest.approx((128 * 9) ** -0.5, rel=0.02)
    assert feedback["blocks.2.fc.weight"].std().item() == pytest.approx(256**-0.5, rel=0.02)


def test_layers_may_be_called_with_keywords(batch: Batch, generator: torch.Generator) -> None:
    class Named(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return F.linear(input=input, weight=self.weight, bias=self.bias)

    network, rule = Plain(Named(12, 12)).double(), WeightFeedback()
    found = rule.credit(network, weights_as_feedback(network), batch)
    expected = Backprop().credit(network, Feedback(), batch)
    torch.testing.assert_close(found.gradients["embed.weight"], expected.gradients["embed.weight"])


def test_the_attention_of_pytorch_trips_the_check(batch: Batch, generator: torch.Generator) -> None:
    """nn.MultiheadAttention keeps its weights out of F.linear's sight and would silently train by backprop."""

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(12, 2, batch_first=True)

        def forward(self, state: Tensor) -> Tensor:
            token = state[:, None]
            out: Tensor = self.attention(token, token, token, need_weights=False)[0]
            return out[:, 0]

    network, rule = Plain(Attending()).double(), WeightFeedback()
    with pytest.raises(ModelMismatch, match=r"blocks\.0\.attention \(MultiheadAttention\)") as found:
        rule.credit(network, rule.feedback(network, batch, generator), batch)
    assert "silently be trained by backprop" in str(found.value)


def test_a_weight_that_is_never_run_trips_the_check(batch: Batch, generator: torch.Generator) -> None:
    class Idle(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return input + self.bias

    network, rule = Plain(Idle(12, 12)).double(), WeightFeedback()
    with pytest.raises(ModelMismatch, match=r"The feedback of blocks\.0\.weight was never used .* of Plain"):
        rule.credit(network, rule.feedback(network, batch, generator), batch)


def test_a_weight_that_is_multiplied_by_hand_trips_the_check(batch: Batch, generator: torch.Generator) -> None:
    class ByHand(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return input @ self.weight.T + self.bias

    network, rule = Plain(ByHand(12, 12)).double(), WeightFeedback()
    with pytest.raises(ModelMismatch, match=r"A parameter of Plain is multiplied by .*matmul"):
        rule.credit(network, rule.feedback(network, batch, generator), batch)


def test_an_error_of_the_network_is_not_hidden_by_the_check(batch: Batch, generator: torch.Generator) -> None:
    class Broken(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            raise RuntimeError("the block's own error")

    network, rule = Plain(Broken(12, 12)).double(), WeightFeedback()
    with pytest.raises(RuntimeError, match="the block's own error"):
        rule.credit(network, rule.feedback(network, batch, generator), batch)


@pytest.mark.parametrize(
    "layer", [nn.Conv1d(1, 1, 1), nn.ConvTranspose2d(1, 1, 1), nn.Bilinear(2, 2, 2), nn.GRU(2, 2)], ids=str
)
def test_layers_that_feedback_cannot_reach_are_refused(
    layer: nn.Module, batch: Batch, generator: torch.Generator
) -> None:
    with pytest.raises(
        ModelMismatch, match=rf"neither Linear nor Conv2d: blocks\.0 \({type(layer).__name__}\)"
    ) as found:
        WeightFeedback().feedback(Plain(layer), batch, generator)
    assert "silently be trained by backprop" in str(found.value)


def test_feedback_of_another_network_is_refused(batch: Batch, generator: torch.Generator) -> None:
    rule = WeightFeedback()
    feedback = rule.feedback(small("resmlp"), batch, generator)
    with pytest.raises(ModelMismatch, match="Feedback and weights of StudentNet do not match: .*head.weight") as found:
        rule.credit(small("student_net"), feedback, batch)
    assert "Draw feedback for this network" in str(found.value)


def test_outside_the_credit_autograd_is_the_true_gradient(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), WeightFeedback()
    before = torch.autograd.grad(F.cross_entropy(network(batch.inputs), batch.labels), list(network.parameters()))
    rule.credit(network, rule.feedback(network, batch, generator), batch)
    after = torch.autograd.grad(F.cross_entropy(network(batch.inputs), batch.labels), list(network.parameters()))
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))


def test_feedback_of_another_network_is_refused_in_the_middle_of_several(
    batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("resmlp"), WeightFeedback()
    right = rule.feedback(network, batch, generator)
    wrong = Feedback({name: tensor for name, tensor in right.tensors.items() if name != "embed.weight"})
    draws = rule.signals_under(network, [right, wrong], batch)
    next(draws)
    with pytest.raises(ModelMismatch, match="do not match: embed.weight"):
        next(draws)


def test_an_embedding_without_a_bias_has_credit_too(batch: Batch, generator: torch.Generator) -> None:
    network, rule = Plain(nn.Linear(12, 12, bias=False)).double(), WeightFeedback()
    network.embed = nn.Linear(192, 12, bias=False).double()
    feedback = rule.feedback(network, batch, generator)
    (signals,) = rule.signals_under(network, [feedback], batch)
    for one, other in zip(signals, rule.credit(network, feedback, batch).signals, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("name", ["fa_weights", "kolen_pollack", "weight_mirror"])
def test_scale_multiplies_the_feedback_and_must_be_positive(name: str) -> None:
    network, batch = small("resmlp"), Batch(images(7), torch.tensor([0, 3, 1, 1, 2]))

    def matrices(scale: float) -> dict[str, Tensor]:
        feedback = methods[name](scale=scale).feedback(network, batch, torch.Generator().manual_seed(3))
        held = feedback.networks.state_dict() if feedback.networks is not None else feedback.tensors
        return {key: tensor for key, tensor in held.items() if tensor.is_floating_point()}

    once, tripled = matrices(1.0), matrices(3.0)
    assert once
    for key, matrix in once.items():
        torch.testing.assert_close(tripled[key], 3 * matrix)
    with pytest.raises(InvalidInput, match="scale must be a positive, finite number, got 0"):
        matrices(0.0)
