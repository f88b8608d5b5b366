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
