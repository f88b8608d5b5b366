"""Local losses: a state's credit is the gradient of its own head, and of nothing above it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.foreign_models import FEATURES, Tokens, images
from tests.methods.conftest import small
from torch import Tensor, nn

import creditscope
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.bp import Backprop
from creditscope.methods.local_loss import Head, LocalLoss
from creditscope.methods.rule import Feedback, Moment
from creditscope.networks.staged import StagedNetwork


def head(feedback: Feedback, layer: int) -> Head:
    assert feedback.networks is not None
    found = feedback.networks[f"M{layer}"]
    assert isinstance(found, Head)
    return found


def own_loss(network: StagedNetwork, weight: Tensor, state: Tensor, labels: Tensor) -> Tensor:
    """Σ_i CE(M h_i, y_i) of what is read of a state, written out."""
    if state.dim() == 4:
        state = state.flatten(2).mean(2)
    if state.dim() == 3:
        state = state.mean(1) if network.token == "mean" else state[:, 0]
    return F.cross_entropy(state @ weight.to(state).T, labels, reduction="sum")


def test_credit_is_the_gradient_of_the_own_loss(
    network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    rule = LocalLoss()
    feedback = rule.feedback(network, batch, generator)
    states = [state.detach().requires_grad_() for state in network.states(batch.inputs)]
    for layer, signal in enumerate(rule.credit(network, feedback, batch).signals):
        loss = own_loss(network, head(feedback, layer).weight.detach(), states[layer], batch.labels)
        (expected,) = torch.autograd.grad(loss, states[layer])
        torch.testing.assert_close(signal, expected)


def test_weights_above_do_not_reach_the_credit(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), LocalLoss()
    feedback = rule.feedback(network, batch, generator)
    before = rule.credit(network, feedback, batch)
    with torch.no_grad():
        for parameter in [*network.blocks[1:].parameters(), *network.out_head.parameters()]:
            parameter.add_(1.0)
    after = rule.credit(network, feedback, batch)
    for layer in (0, 1):
        assert torch.equal(before.signals[layer], after.signals[layer])
    assert not torch.equal(before.signals[2], after.signals[2])
    for name in ("embed.weight", "blocks.0.w1.weight"):
        assert torch.equal(before.gradients[name], after.gradients[name])


def test_a_block_under_the_read_out_whose_head_is_the_read_out_learns_by_backprop(
    batch: Batch, generator: torch.Generator
) -> None:
    network, rule = small("mlp", depth=1), LocalLoss()
    feedback = rule.feedback(network, batch, generator)
    with torch.no_grad():
        network.head.bias.zero_()
        head(feedback, 1).weight.copy_(network.head.weight)
    assert feedback.networks is not None
    feedback.networks.double()
    with torch.no_grad():
        head(feedback, 1).weight.copy_(network.head.weight)
    found, expected = rule.credit(network, feedback, batch), Backprop().credit(network, Feedback(), batch)
    torch.testing.assert_close(found.signals[1], expected.signals[1])
    for name in ("blocks.0.w.weight", "blocks.0.w.bias", "head.weight"):
        torch.testing.assert_close(found.gradients[name], expected.gradients[name])
    assert not torch.allclose(found.gradients["embed.w.weight"], expected.gradients["embed.w.weight"])


def test_heads_step_by_the_gradient_of_their_own_loss(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("vit_mini"), LocalLoss()
    feedback = rule.feedback(network, batch, generator)
    assert feedback.networks is not None
    feedback.networks.double()
    weights = [head(feedback, layer).weight.detach().clone().requires_grad_() for layer in range(network.depth + 1)]
    losses = [
        own_loss(network, w, s.detach(), batch.labels) / 5
        for w, s in zip(weights, network.states(batch.inputs), strict=True)
    ]
    expected = torch.autograd.grad(torch.stack(losses).sum(), weights)
    credit = rule.learn(network, feedback, batch, Moment(0.0, generator))
    torch.testing.assert_close(credit.auxiliary["head_loss"], torch.stack(losses).mean().detach())
    for layer, gradient in enumerate(expected):
        torch.testing.assert_close(head(feedback, layer).weight.grad, gradient)
        step = torch.sign(gradient) * 1e-3  # the first step of Adam
        torch.testing.assert_close(
            head(feedback, layer).weight.detach(), weights[layer].detach() - step, rtol=0, atol=1e-5
        )


def test_predictions_are_by_the_network_the_last_head_or_the_sum_of_all(
    batch: Batch, generator: torch.Generator
) -> None:
    network = small("small_cnn")
    feedback = LocalLoss().feedback(network, batch, generator)
    goodness = []
    for layer, state in enumerate(network.states(batch.inputs)):
        vectors = state.flatten(2).mean(2) if state.dim() == 4 else state
        goodness.append(vectors @ head(feedback, layer).weight.detach().double().T)
    answers = {
        kind: BoundRule(LocalLoss(prediction=kind), network, feedback, batch).answers(batch)  # type: ignore[arg-type]
        for kind in ("network", "last", "sum")
    }
    assert answers["network"] is None
    torch.testing.assert_close(answers["last"], goodness[-1].detach())
    torch.testing.assert_close(answers["sum"], torch.stack(goodness).sum(0).detach())


def test_another_prediction_is_refused() -> None:
    with pytest.raises(InvalidInput, match="'network', 'last' or 'sum', got 'first'"):
        LocalLoss(prediction="first")  # type: ignore[arg-type]


def test_feedback_without_heads_is_refused(batch: Batch) -> None:
    with pytest.raises(InvalidInput, match="holds no heads"):
        LocalLoss().credit(small("resmlp"), Feedback(), batch)


def test_labels_that_are_no_class_numbers_are_refused(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), LocalLoss()
    feedback = rule.feedback(network, batch, generator)
    network.loss_fn = lambda logits, labels: (logits - labels).square().mean(1)
    with pytest.raises(InvalidInput, match="local_loss needs one class number"):
        rule.credit(network, feedback, Batch(batch.inputs, torch.zeros(5, 4, dtype=torch.float64)))


# --- on any model ---


class Reads(Tokens):
    """A transformer whose read-out takes the mean over tokens, or one of them."""

    def __init__(self, token: str | int) -> None:
        super().__init__()
        self.token = token

    def read(self, h: Tensor) -> Tensor:
        return h.mean(1) if self.token == "mean" else h[:, int(self.token)]

    def forward(self, x: Tensor) -> Tensor:
        h = self.inlet(x)
        for layer in self.layers:
            h = layer(h)
        out: Tensor = self.outlet(self.read(h))
        return out


@pytest.mark.parametrize("token", ["mean", -1, 0])
def test_on_any_model_a_head_reads_the_token_that_the_model_reads(token: str | int) -> None:
    """a_l = ∂ Σ_i CE(M_l read(h_l), y_i)/∂h_l, with the model's own read-out rule, written out."""
    model = Reads(token).double().eval()
    inputs, labels = images(6, shape=(7, FEATURES))
    batch = Batch(inputs.double(), labels)
    bound = creditscope.rule("local_loss", model, example=batch)
    state, signals = model.inlet(batch.inputs), bound.signals(batch)
    for layer, block in enumerate([*model.layers, nn.Identity()]):
        moving = state.detach().requires_grad_()
        logits = model.read(moving) @ head(bound.feedback, layer).weight.to(moving).T
        (expected,) = torch.autograd.grad(F.cross_entropy(logits, batch.labels, reduction="sum"), moving)
        torch.testing.assert_close(signals[layer], expected.detach())
        state = block(state)
