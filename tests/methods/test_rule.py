"""A rule bound to the network that it trained gives the signals of rules that have feedback."""

from __future__ import annotations

import pytest
import torch
from tests.probes.subjects import generator

from creditscope.batch import Batch
from creditscope.credit import CreditSource
from creditscope.errors import InvalidInput
from creditscope.methods import methods
from creditscope.methods.bound_rule import BoundRule
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.wrappers import Frozen
from creditscope.networks.build import build
from creditscope.stream.isolation import evaluating


class Elsewhere(CreditSource):
    """A source of credit that is not a rule."""

    def signals(self, batch: Batch) -> tuple[torch.Tensor, ...]:
        return ()


def test_a_source_without_feedback_is_refused_and_not_left_out() -> None:
    network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    batch = Batch(torch.randn(4, 6, generator=generator(0)), torch.tensor([0, 1, 2, 0]))
    rule = DirectFeedback()
    bound = BoundRule(rule, network, rule.feedback(network, batch, generator(1)), batch)
    assert len(list(bound.signals_under(batch, [bound, bound]))) == 2
    with pytest.raises(InvalidInput, match=r"(?s)Elsewhere is not a rule bound to a network\..*`redrawn`"):
        list(bound.signals_under(batch, [bound, Elsewhere()]))


@pytest.mark.parametrize("name", ["bp", "dfa", "sign_symmetry", "kolen_pollack", "state_bridge"])
def test_a_bound_rule_hands_on_what_its_rule_declares(name: str) -> None:
    network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
    batch = Batch(torch.randn(4, 6, generator=generator(0)), torch.tensor([0, 1, 2, 0]))
    rule = methods[name]()
    feedback = rule.feedback(network, batch, generator(1))
    bound = BoundRule(Frozen(rule), network, feedback, batch)
    assert bound.local is not rule.uses_weights_above
    assert bound.at_states is rule.at_states
    assert bound.exact_layers == rule.exact_layers(2)
    fresh = bool(feedback.tensors) and feedback.networks is None and rule.redraws
    assert (bound.redrawn(generator(2)) is not None) is fresh


@pytest.mark.parametrize("name", ["dfa", "predictive_coding"])
def test_drawing_feedback_reads_no_batch_statistics_and_leaves_every_mode_as_it_was(name: str) -> None:
    network = build("small_resnet", (3, 8, 8), 3, seed=0, channels=4, depth=2).train()
    next(network.children()).eval()
    modes = [module.training for module in network.modules()]
    buffers = [buffer.clone() for buffer in network.buffers()]
    batch = Batch(torch.randn(4, 3, 8, 8, generator=generator(0)), torch.tensor([0, 1, 2, 0]))
    methods[name]().feedback(network, batch, generator(1))
    assert [module.training for module in network.modules()] == modes
    assert all(map(torch.equal, network.buffers(), buffers))
    with pytest.raises(ArithmeticError), evaluating(network):
        assert not any(module.training for module in network.modules())
        raise ArithmeticError
    assert [module.training for module in network.modules()] == modes
