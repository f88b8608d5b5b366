"""DRTP: DFA without what the network answered."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import CLASSES, small

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.drtp import TargetProjection
from creditscope.networks.staged import StagedNetwork


def test_dfa_is_the_projected_answer_plus_drtp(
    network: StagedNetwork, batch: Batch, generator: torch.Generator
) -> None:
    """e B_l = softmax(logits) B_l + (-y B_l)."""
    feedback = DirectFeedback().feedback(network, batch, generator)
    dfa = DirectFeedback().credit(network, feedback, batch).signals
    drtp = TargetProjection().credit(network, feedback, batch).signals
    answer = F.softmax(network(batch.inputs).detach(), 1)
    for layer, (one, two) in enumerate(zip(dfa, drtp, strict=True)):
        projected = answer @ feedback.tensors[f"B.{layer}"].double()
        shaped = projected[:, None].expand_as(one) if one.dim() == 3 else projected.view_as(one)
        torch.testing.assert_close(one, shaped + two)


def test_credit_is_minus_the_row_of_the_label(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("mlp"), TargetProjection()
    feedback = rule.feedback(network, batch, generator)
    for layer, signal in enumerate(rule.credit(network, feedback, batch).signals):
        rows = [-feedback.tensors[f"B.{layer}"][label].double() for label in batch.labels.tolist()]
        torch.testing.assert_close(signal, torch.stack(rows))


def test_credit_does_not_move_with_the_logits(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), TargetProjection()
    feedback = rule.feedback(network, batch, generator)
    before = rule.credit(network, feedback, batch).signals
    with torch.no_grad():
        network.out_head.weight.mul_(-3.0)
    assert not torch.equal(network(batch.inputs), torch.zeros(5, CLASSES))
    after = rule.credit(network, feedback, batch).signals
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))


def test_labels_that_are_no_class_numbers_are_refused(batch: Batch, generator: torch.Generator) -> None:
    network, rule = small("resmlp"), TargetProjection()
    feedback = rule.feedback(network, batch, generator)
    network.loss_fn = lambda logits, labels: (logits - labels).square().mean(1)
    with pytest.raises(InvalidInput, match="needs one class number per sample"):
        rule.credit(network, feedback, Batch(batch.inputs, torch.zeros(5, CLASSES, dtype=torch.float64)))
