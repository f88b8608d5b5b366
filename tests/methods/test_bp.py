"""Backprop: the reference, and with a penalty the gradient of the penalised loss."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import small

from creditscope.batch import Batch
from creditscope.methods.bp import Backprop
from creditscope.methods.rule import Feedback, Scope
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture


def test_signals_are_each_samples_own_gradient(network: StagedNetwork, batch: Batch) -> None:
    """Of its own loss: no 1/N."""
    trace = capture(find_stream(network), batch)
    signals = Backprop().credit(network, Feedback(), batch).signals
    for signal, gradient in zip(signals, trace.gradients, strict=True):
        torch.testing.assert_close(signal, gradient, rtol=1e-12, atol=1e-15)


def test_a_samples_signal_does_not_depend_on_the_size_of_its_batch(network: StagedNetwork, batch: Batch) -> None:
    together = Backprop().credit(network, Feedback(), batch).signals
    alone = Backprop().credit(network, Feedback(), Batch(batch.inputs[2:3], batch.labels[2:3])).signals
    for many, one in zip(together, alone, strict=True):
        torch.testing.assert_close(many[2:3], one)


def test_gradients_are_those_of_the_mean_loss(network: StagedNetwork, batch: Batch) -> None:
    F.cross_entropy(network(batch.inputs), batch.labels).backward()
    expected = {name: p.grad for name, p in network.named_parameters()}
    network.zero_grad()
    credit = Backprop().credit(network, Feedback(), batch)
    assert credit.gradients.keys() == expected.keys()
    for name, gradient in credit.gradients.items():
        torch.testing.assert_close(gradient, expected[name], msg=name)


def test_the_penalty_joins_the_loss_and_reaches_everything_below(batch: Batch) -> None:
    network, strength = small("resmlp"), 0.3
    credit = Backprop().credit(network, Feedback(), batch, Scope(penalty=strength))
    states = network.states(batch.inputs)
    sizes = sum((network.branch(index, state) ** 2).sum() for index, state in enumerate(states[:-1]))
    loss = F.cross_entropy(network.readout(states[-1]), batch.labels) + strength * sizes / len(batch.labels)
    for (name, parameter), expected in zip(
        network.named_parameters(), torch.autograd.grad(loss, list(network.parameters())), strict=True
    ):
        torch.testing.assert_close(credit.gradients[name], expected, msg=name)
        assert parameter.grad is None


def test_only_blocks_that_learn_are_penalised(batch: Batch) -> None:
    """A frozen control is thus the same run with and without a penalty."""
    network = small("resmlp")
    plain, penalised = (
        Backprop().credit(network, Feedback(), batch, Scope(frozenset(), penalty)).gradients for penalty in (0.0, 0.5)
    )
    assert plain.keys() == penalised.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(penalised[name], gradient, msg=name)


def test_a_penalty_does_not_change_the_signals(network: StagedNetwork, batch: Batch) -> None:
    plain = Backprop().credit(network, Feedback(), batch).signals
    penalised = Backprop().credit(network, Feedback(), batch, Scope(penalty=0.5)).signals
    for one, other in zip(plain, penalised, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("depth", [0, 1, 3])
def test_all_layers_are_exact(depth: int, batch: Batch) -> None:
    credit = Backprop().credit(small("resmlp", depth=depth), Feedback(), batch)
    assert Backprop().exact_layers(depth) == set(range(depth + 1))
    assert len(credit.signals) == depth + 1


def test_it_needs_no_feedback(network: StagedNetwork, batch: Batch, generator: torch.Generator) -> None:
    before = generator.get_state()
    feedback = Backprop().feedback(network, batch, generator)
    assert not feedback.tensors
    assert feedback.networks is None
    assert torch.equal(generator.get_state(), before)
