"""Block-level FA: the exact gradient at the deepest state, carried down through fixed matrices."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.methods.conftest import small
from tests.methods.test_dfa import WAYS
from tests.methods.twins import errors, local_gradients, student_gradients
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.fa import BlockFeedback
from creditscope.methods.rule import Feedback, Scope
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture


def carried(above: Tensor, matrix: Tensor, below: torch.Size) -> Tensor:
    """One sample's credit one block down: along the features, or flattened where the shape changes."""
    if above.shape != below:
        return (above.flatten() @ matrix).reshape(below)
    if above.dim() < 3:  # features last: vectors and tokens
        return above @ matrix
    out = torch.zeros_like(above)
    for row in range(above.shape[1]):
        for column in range(above.shape[2]):
            out[:, row, column] = above[:, row, column] @ matrix
    return out


def slow_signals(network: StagedNetwork, batch: Batch, feedback: Feedback) -> list[list[Tensor]]:
    """a_L = ∂ℓ/∂h_L of one sample; a_l = a_{l+1} B_l."""
    shapes = [state.shape[1:] for state in network.states(batch.inputs)]
    signals: list[list[Tensor]] = [[] for _ in shapes]
    for i, label in enumerate(batch.labels.tolist()):
        deepest = network.states(batch.inputs[i : i + 1])[-1].detach().requires_grad_()
        loss = -torch.log_softmax(network.readout(deepest), 1)[0, label]
        credit = torch.autograd.grad(loss, deepest)[0][0]
        for layer in reversed(range(len(shapes))):
            signals[layer].append(credit)
            if layer:
                credit = carried(credit, feedback.tensors[f"B.{layer - 1}"].double(), shapes[layer - 1])
    return signals


@pytest.mark.parametrize(("how", "penalty"), WAYS)
def test_updates_equal_the_hand_formula(how: Any, penalty: float, batch: Batch, generator: torch.Generator) -> None:
    """On the student a_L = W_headᵀ e, so that no autograd is needed anywhere."""
    network, rule = small("student_net"), BlockFeedback(how)
    feedback = rule.feedback(network, batch, generator)
    head = network.head.weight.detach()  # type: ignore[union-attr]
    signals = [[head.T @ e for e in errors(network, batch)]]  # type: ignore[operator]
    for layer in reversed(range(network.depth)):
        signals.insert(0, [a @ feedback.tensors[f"B.{layer}"].double() for a in signals[0]])
    expected = student_gradients(network, batch, signals, penalty, how)  # type: ignore[arg-type]
    found = rule.credit(network, feedback, batch, Scope(penalty=penalty)).gradients
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize(("how", "penalty"), WAYS)
def test_updates_are_each_stages_own_products_on_every_network(
    how: Any, penalty: float, network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    rule = BlockFeedback(how)
    feedback = rule.feedback(network, batch, generator)
    signals = slow_signals(network, batch, feedback)
    credit = rule.credit(network, feedback, batch, Scope(penalty=penalty))
    for found, slow in zip(credit.signals, signals, strict=True):
        torch.testing.assert_close(found, torch.stack(slow))
    for name, expected in local_gradients(network, batch, signals, penalty, how).items():
        torch.testing.assert_close(credit.gradients[name], expected, rtol=1e-8, atol=1e-11, msg=name)


def test_the_deepest_layer_and_no_other_is_exact(
    network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    rule = BlockFeedback()
    credit = rule.credit(network, rule.feedback(network, batch, generator), batch)
    gradients = capture(find_stream(network), batch).gradients
    assert rule.exact_layers(network.depth) == {network.depth}
    torch.testing.assert_close(credit.signals[-1], gradients[-1])
    assert all(
        not torch.allclose(a, g, rtol=0.1, atol=0) for a, g in zip(credit.signals[:-1], gradients[:-1], strict=True)
    )


def test_matrices_act_on_features_or_between_flattened_states(batch: Batch, generator: torch.Generator) -> None:
    shapes = {
        name: [tuple(t.shape) for t in BlockFeedback().feedback(small(name), batch, generator).tensors.values()]
        for name in ("resmlp", "vit_mini", "small_cnn", "small_resnet")
    }
    assert shapes["resmlp"] == [(12, 12)] * 3
    assert shapes["vit_mini"] == [(8, 8)] * 2
    assert shapes["small_cnn"] == [(6 * 4, 3 * 16), (12, 6 * 4), (11, 12)]
    assert shapes["small_resnet"] == [(3, 3), (3, 3), (6 * 16, 3 * 64), (12 * 4, 6 * 16)]


def test_feedback_keeps_the_expected_length_of_credit(generator: torch.Generator) -> None:
    """E‖a B‖² = ‖a‖² where B_l is square: N(0, 1)/√d."""
    network = small("resmlp", d=400, depth=1)
    feedback = BlockFeedback().feedback(
        network, Batch(torch.zeros(1, 3, 8, 8).double(), torch.zeros(1).long()), generator
    )
    assert feedback.tensors["B.0"].std().item() == pytest.approx(400**-0.5, rel=0.02)


def test_without_blocks_the_embedding_hears_the_exact_gradient(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp", depth=0), BlockFeedback("none")
    credit = rule.credit(network, rule.feedback(network, batch, generator), batch)
    loss = torch.nn.functional.cross_entropy(network(batch.inputs), batch.labels)
    (expected,) = torch.autograd.grad(loss, network.embed.weight)  # type: ignore[arg-type,union-attr]
    torch.testing.assert_close(credit.gradients["embed.weight"], expected)


def test_an_unknown_normalisation_is_refused() -> None:
    with pytest.raises(InvalidInput, match="normalisation must be 'sample', 'batch' or 'none', got ''"):
        BlockFeedback(normalisation="")  # type: ignore[arg-type]


def test_feedback_is_drawn_again_in_the_order_of_the_layers_whatever_the_file_says(batch: Batch) -> None:
    network, rule = small("student_net", depth=12), BlockFeedback()
    first = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    shuffled = Feedback(dict(sorted(first.tensors.items())))  # B.0, B.1, B.10, B.11, B.2, ...
    again = rule.redrawn(network, shuffled, batch, torch.Generator().manual_seed(1))
    assert all(torch.equal(again.tensors[name], tensor) for name, tensor in first.tensors.items())
