"""Whatever comes in as credit is credit, or is refused with a reason."""

from __future__ import annotations

import pytest
import torch
from tests.probes.subjects import backprop, batches, dfa, images, network

from creditscope import audit
from creditscope.credit import NoCredit
from creditscope.errors import InvalidInput
from creditscope.probes.source import FunctionSource, credit_source
from creditscope.stream.isolation import own_gradients


@pytest.fixture(scope="module")
def net():
    return network()


def absurd(change):
    """A credit function whose list of signals was spoilt."""
    return lambda model: lambda batch: change(backprop(model)(batch))


@pytest.mark.parametrize(
    ("spoilt", "found", "remedy"),
    [
        (
            lambda a: [*a[:1], a[1][:, :-1], *a[2:]],
            r"a_1 has shape \(128, 47\), but the state h_1 has \(128, 48\)",
            "own shape",
        ),
        (lambda a: [*a[:2], a[2][:1], a[3]], r"a_2 has shape \(1, 48\)", "broadcast"),
        (lambda a: a[1:], "3 signals for 4 states h_0 to h_3", "one per state"),
        (lambda a: [], "0 signals for 4 states", "one per state"),
        (lambda a: [*a, a[-1]], "5 signals for 4 states", "one per state"),
        (lambda a: [a[0].requires_grad_(), *a[1:]], "a_0 requires grad", "detach"),
        (lambda a: [a[0], a[1] / 0, *a[2:]], "a_1 holds 6144 numbers that are not finite", "division by zero"),
        (lambda a: [*a[:3], a[3].long()], "a_3 holds torch.int64", "floating-point"),
        (lambda a: torch.stack(a), "credit returned a Tensor, not a list", r"\[a_0, ..., a_L\]"),
        (lambda a: dict(enumerate(a)), "credit returned a dict", "list of tensors"),
        (lambda a: [s.tolist() for s in a], "credit returned a list of list", "list of tensors"),
        (lambda a: None, "credit returned a NoneType", "list of tensors"),
    ],
)
def test_absurd_credit_is_refused_with_what_was_found_and_what_to_do(net, spoilt, found, remedy):
    with pytest.raises(InvalidInput, match=found) as refusal:
        audit(net, batches(256), credit=absurd(spoilt)(net))
    assert refusal.match(remedy)


@pytest.mark.parametrize("credit", [3.0, "dfa", [1, 2], torch.zeros(2)])
def test_what_is_neither_a_source_nor_a_function_is_refused(net, credit):
    with pytest.raises(InvalidInput, match=f"credit is a {type(credit).__name__}, neither"):
        audit(net, batches(256), credit=credit)


def test_a_network_is_not_a_credit_function(net):
    with pytest.raises(InvalidInput, match="neither a credit source nor a function"):
        audit(net, batches(256), credit=net)


def test_predict_must_be_a_function(net):
    with pytest.raises(InvalidInput, match="predict is a int, not a function"):
        audit(net, batches(256), predict=3)


def test_a_source_of_ours_is_taken_as_it_is_and_a_function_as_the_user_declares_it(net):
    source = dfa(net)
    assert credit_source(source, None) is source
    assert credit_source(backprop(net), None).local
    assert credit_source(backprop(net), True).local
    assert not credit_source(backprop(net), False).local
    assert isinstance(credit_source(backprop(net), None), FunctionSource)


def test_a_declaration_that_contradicts_the_rule_is_refused(net):
    with pytest.raises(InvalidInput, match=r"credit_local=False contradicts BoundRule, which declares local=True"):
        credit_source(dfa(net), False)


def test_credit_that_probes_the_weights_above_forward_declares_it(net):
    assert credit_source(backprop(net), "forward").local == "forward"
    with pytest.raises(InvalidInput, match="credit_local must be True, False or 'forward', got 'backward'"):
        audit(net, batches(256), credit=backprop(net), credit_local="backward")


@pytest.mark.parametrize(
    ("credit", "redraw", "message"),
    [
        (backprop, 3, "redraw is a int, not a function"),
        (dfa, lambda drawn: None, r"redraw was given together with BoundRule, which has a redrawn\(\) of its own"),
        (lambda net: None, lambda drawn: None, "redraw was given without credit"),
    ],
)
def test_a_redraw_that_belongs_to_no_function_is_refused(net, credit, redraw, message):
    with pytest.raises(InvalidInput, match=message):
        audit(net, batches(256), credit=credit(net), redraw=redraw)


def test_lost_credit_gives_no_signals():
    with pytest.raises(InvalidInput, match="The credit is not available: the matrices are gone"):
        NoCredit("the matrices are gone").signals(images(2))


def test_an_error_of_the_users_own_function_is_the_cause_of_ours(net):
    def broken(batch):
        raise KeyError("B.3")

    with pytest.raises(InvalidInput, match="credit failed: KeyError: 'B.3'") as caught:
        audit(net, batches(256), credit=broken)
    assert isinstance(caught.value.__cause__, KeyError)


def test_gradients_that_a_credit_function_leaves_behind_are_undone(net):
    first, second = list(net.parameters())[:2]
    first.grad = before = torch.ones_like(first)
    with own_gradients(net):
        net(images(4).inputs).sum().backward()
        assert second.grad is not None
        assert not torch.equal(first.grad, torch.ones_like(first))
    assert first.grad is before
    assert torch.equal(before, torch.ones_like(first))
    assert second.grad is None
    first.grad = None
