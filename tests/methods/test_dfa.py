"""DFA: every state receives e B_l, and every block its own neighbour's credit."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.methods.conftest import CLASSES, small
from tests.methods.twins import errors, local_gradients, student_gradients
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.rule import Feedback, Scope
from creditscope.networks.staged import StagedNetwork

WAYS = [("sample", 0.0), ("batch", 0.0), ("none", 0.0), ("sample", 0.3), ("none", 0.3)]


def slow_signals(network: StagedNetwork, batch: Batch, feedback: Feedback) -> list[list[Tensor]]:
    """a_l = Σ_c e_c B_l[c], sample by sample, the same at every token."""
    states, last = network.states(batch.inputs), len(feedback.tensors) - 1
    signals = []
    for layer, state in enumerate(states):
        matrix = feedback.tensors[f"B.{min(layer, last)}"].double()
        told = [sum((e[c] * matrix[c] for c in range(CLASSES)), torch.zeros(())) for e in errors(network, batch)]
        shape = state.shape[1:]
        signals.append([a.expand(shape) if len(shape) == 2 else a.reshape(shape) for a in told])
    return signals


def received(signals: list[list[Tensor]], index: str) -> list[list[Tensor]]:
    """What the embedding and the blocks receive: a_0, then a_{l+1}, or as published a_l."""
    return signals if index == "output" else [signals[0], *signals[:-1]]


@pytest.mark.parametrize("index", ["output", "input"])
@pytest.mark.parametrize(("how", "penalty"), WAYS)
@pytest.mark.parametrize("residual", [True, False])
def test_updates_equal_the_hand_formula(
    index: Any, how: Any, penalty: float, residual: bool, batch: Batch, generator: torch.Generator
) -> None:
    network = small("student_net", residual=residual)
    rule = DirectFeedback(how, index)
    feedback = rule.feedback(network, batch, generator)
    told = received(slow_signals(network, batch, feedback), index)
    expected = student_gradients(network, batch, told, penalty, how)  # type: ignore[arg-type]
    found = rule.credit(network, feedback, batch, Scope(penalty=penalty)).gradients
    assert found.keys() == expected.keys()
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-9, atol=1e-12, msg=name)


@pytest.mark.parametrize(("how", "penalty"), WAYS)
def test_updates_are_each_stages_own_products_on_every_network(
    how: Any, penalty: float, network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    rule = DirectFeedback(how)
    feedback = rule.feedback(network, batch, generator)
    expected = local_gradients(network, batch, slow_signals(network, batch, feedback), penalty, how)
    found = rule.credit(network, feedback, batch, Scope(penalty=penalty)).gradients
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, expected[name], rtol=1e-8, atol=1e-11, msg=name)


def test_signals_are_the_error_through_the_feedback(
    network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    rule = DirectFeedback()
    feedback = rule.feedback(network, batch, generator)
    for found, slow in zip(
        rule.credit(network, feedback, batch).signals, slow_signals(network, batch, feedback), strict=True
    ):
        torch.testing.assert_close(found, torch.stack(slow).expand_as(found))


@pytest.mark.parametrize(("index", "count"), [("output", 4), ("input", 3)])
def test_feedback_has_one_matrix_per_state_that_is_heard(
    index: Any, count: int, batch: Batch, generator: torch.Generator
) -> None:
    feedback = DirectFeedback(index=index).feedback(small("resmlp"), batch, generator)
    assert {name: tuple(tensor.shape) for name, tensor in feedback.tensors.items()} == {
        f"B.{layer}": (CLASSES, 12) for layer in range(count)
    }


def test_feedback_is_standard_normal_over_the_root_of_the_classes(generator: torch.Generator) -> None:
    network = small("resmlp", d=2000, depth=1)
    feedback = DirectFeedback().feedback(
        network, Batch(torch.zeros(2, 3, 8, 8).double(), torch.zeros(2).long()), generator
    )
    pooled = torch.cat([tensor.flatten() for tensor in feedback.tensors.values()])
    assert pooled.mean().abs() < 0.02
    assert pooled.std().item() == pytest.approx(CLASSES**-0.5, rel=0.02)


def test_as_published_the_deepest_signal_uses_the_last_matrix(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), DirectFeedback(index="input")
    signals = rule.credit(network, rule.feedback(network, batch, generator), batch).signals
    assert torch.equal(signals[-1], signals[-2])
    assert not torch.equal(signals[-2], signals[-3])


@pytest.mark.parametrize("index", ["output", "input"])
def test_without_blocks_the_embedding_still_hears(index: Any, batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp", depth=0), DirectFeedback(index=index)
    credit = rule.credit(network, rule.feedback(network, batch, generator), batch)
    assert len(credit.signals) == 1
    assert credit.gradients["embed.weight"].abs().max() > 0


def test_no_layer_is_exact(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), DirectFeedback()
    assert rule.exact_layers(network.depth) == frozenset()


def test_a_block_cannot_hear_its_input_where_the_shape_changes(batch: Batch, generator: torch.Generator) -> None:
    with pytest.raises(InvalidInput, match="The states of SmallCNN have the shapes") as found:
        DirectFeedback(index="input").feedback(small("small_cnn"), batch, generator)
    assert "does not fit the block's output" in str(found.value)


def test_an_unknown_index_is_refused() -> None:
    with pytest.raises(InvalidInput, match="index must be 'output' or 'input', got 'middle'") as found:
        DirectFeedback(index="middle")  # type: ignore[arg-type]
    assert "Choose one of the two" in str(found.value)


def test_an_unknown_normalisation_is_refused() -> None:
    with pytest.raises(InvalidInput, match="normalisation must be 'sample', 'batch' or 'none', got 'layer'"):
        DirectFeedback(normalisation="layer")  # type: ignore[arg-type]
