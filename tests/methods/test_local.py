"""Local rules: stages that see no gradient but their own, and credit brought to one scale."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.conftest import small
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.local import (
    check_index,
    check_normalisation,
    drawn_again,
    forward_in_pieces,
    local_pass,
    normal,
    normalise,
    output_error,
    read_out,
)
from creditscope.methods.rule import EVERYTHING, Feedback, Scope
from creditscope.networks.staged import Asked, Pieces, StagedNetwork

SHAPES = [(6, 7), (6, 3, 5), (6, 2, 3, 4)]


def drawn(shape: tuple[int, ...], seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())


def test_the_error_is_the_gradient_of_each_samples_own_loss() -> None:
    logits, labels = (5 * drawn((6, 4))).requires_grad_(), torch.tensor([0, 1, 2, 3, 1, 0])
    (expected,) = torch.autograd.grad(F.cross_entropy(logits, labels, reduction="sum"), logits)
    torch.testing.assert_close(output_error(logits.detach(), labels), expected)


def test_a_saturated_sample_has_no_error() -> None:
    assert output_error(torch.tensor([[200.0, 0.0, 0.0]]), torch.tensor([0])).abs().max() == 0


@pytest.mark.parametrize("shape", SHAPES)
def test_per_sample_every_sample_has_an_rms_of_one(shape: tuple[int, ...]) -> None:
    credit = drawn(shape) * torch.logspace(-8, 8, 6, dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    assert [rms(row) for row in normalise(credit, "sample")] == pytest.approx([1.0] * 6)


@pytest.mark.parametrize("shape", SHAPES)
def test_per_batch_the_batch_has_an_rms_of_one_and_samples_keep_their_ratios(shape: tuple[int, ...]) -> None:
    credit = drawn(shape)
    scaled = normalise(credit, "batch")
    assert rms(scaled) == pytest.approx(1.0)
    torch.testing.assert_close(scaled / scaled[0].norm(), credit / credit[0].norm())


@pytest.mark.parametrize("shape", SHAPES)
def test_without_normalisation_credit_stays_as_it_is(shape: tuple[int, ...]) -> None:
    assert torch.equal(normalise(drawn(shape), "none"), drawn(shape))


@given(st.sampled_from(SHAPES), st.integers(0, 99), st.floats(1e-6, 1e6), st.sampled_from(["sample", "batch"]))
def test_the_scale_of_credit_does_not_matter(shape: tuple[int, ...], seed: int, scale: float, how: str) -> None:
    credit = drawn(shape, seed)
    torch.testing.assert_close(normalise(credit * scale, how), normalise(credit, how))  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_sample_without_credit_stays_at_zero(shape: tuple[int, ...]) -> None:
    credit = drawn(shape)
    credit[2] = 0
    for how in ("sample", "batch", "none"):
        assert normalise(credit, how)[2].abs().max() == 0  # type: ignore[arg-type]
        assert normalise(torch.zeros(shape), how).abs().max() == 0  # type: ignore[arg-type]


def test_an_unknown_normalisation_is_refused() -> None:
    with pytest.raises(InvalidInput, match="normalisation must be 'sample', 'batch' or 'none', got 'rms'") as found:
        check_normalisation("rms")
    assert "whether the stream explodes" in str(found.value)


def test_the_pieces_add_up_to_the_forward_pass(network: StagedNetwork, batch: Batch) -> None:
    seen = forward_in_pieces(network, batch, EVERYTHING)
    logits, hiddens = network(batch.inputs, return_hidden=True)
    assert all(torch.equal(one, two) for one, two in zip(seen.hiddens, hiddens, strict=True))
    torch.testing.assert_close(seen.loss, F.cross_entropy(logits, batch.labels).detach())
    torch.testing.assert_close(seen.error, F.softmax(logits, 1).detach() - F.one_hot(batch.labels, 4))


def test_no_gradient_crosses_a_border(network: StagedNetwork, batch: Batch) -> None:
    """The graph of a stage holds the parameters of that stage and no others."""
    seen = forward_in_pieces(network, batch, EVERYTHING)
    named = dict(network.named_parameters())
    for index, stage in enumerate(seen.stages):
        found = torch.autograd.grad(stage.sum(), list(named.values()), allow_unused=True, retain_graph=True)
        reached = {name for name, gradient in zip(named, found, strict=True) if gradient is not None}
        own = {name for name in named if name.startswith(f"blocks.{index - 1}.")}
        outside = {name for name in named if not name.startswith("blocks.") and name not in seen.readout}
        assert reached == (own if index else outside)


def test_a_stage_that_does_not_learn_has_no_graph(batch: Batch) -> None:
    seen = forward_in_pieces(small("resmlp"), batch, Scope(frozenset({1})))
    assert [stage.requires_grad for stage in seen.stages] == [True, False, True, False]


def test_the_readout_learns_by_its_exact_gradient(network: StagedNetwork, batch: Batch) -> None:
    seen = forward_in_pieces(network, batch, EVERYTHING)
    loss = F.cross_entropy(network.readout(seen.hiddens[-1]), batch.labels)
    named = {name: p for name, p in network.named_parameters() if name in seen.readout}
    assert any("head" in name for name in named)
    for name, expected in zip(named, torch.autograd.grad(loss, list(named.values())), strict=True):
        torch.testing.assert_close(seen.readout[name], expected, msg=name)


def test_credit_can_be_had_without_gradients_switched_on(network: StagedNetwork, batch: Batch) -> None:
    with torch.no_grad():
        assert forward_in_pieces(network, batch, EVERYTHING).stages[0].requires_grad


def test_an_unknown_index_is_refused() -> None:
    check_index("input")
    with pytest.raises(InvalidInput, match="index must be 'output' or 'input', got 'both'"):
        check_index("both")


def test_the_readout_alone_is_differentiated_at_any_state(network: StagedNetwork, batch: Batch) -> None:
    state = network.states(batch.inputs)[-1].detach()
    found = read_out(network, state, batch.labels)
    leaf = state.clone().requires_grad_()
    logits = network.readout(leaf)
    losses = F.cross_entropy(logits, batch.labels, reduction="none")
    (slope,) = torch.autograd.grad(losses.sum(), leaf, retain_graph=True)
    torch.testing.assert_close(found.slope, slope)
    torch.testing.assert_close(found.logits, logits.detach())
    torch.testing.assert_close(found.error, output_error(logits.detach(), batch.labels))
    outside = network.readout_parameters()
    gradients = torch.autograd.grad(losses.mean(), list(outside.values()), allow_unused=True)
    expected = {name: gradient for name, gradient in zip(outside, gradients, strict=True) if gradient is not None}
    assert found.gradients.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(found.gradients[name], gradient, msg=name)
    with torch.no_grad():
        assert torch.equal(read_out(network, state, batch.labels).slope, found.slope)


def test_feedback_is_drawn_again_in_the_same_order_with_the_same_shapes() -> None:
    shapes = {"B.0": (4, 3), "B.1": (4, 5), "B.2": (2, 5)}
    first = Feedback({name: torch.zeros(shape) for name, shape in reversed(shapes.items())})
    again = drawn_again(first, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    for name, (rows, columns) in shapes.items():
        plain = torch.randn(rows, columns, generator=generator) / rows**0.5
        torch.testing.assert_close(again.tensors[name], plain)
    assert normal(4000, 3, generator).square().sum(0).mean().item() == pytest.approx(1.0, rel=0.1)


@pytest.mark.parametrize("how", ["sample", "batch", "none"])
@pytest.mark.parametrize("shapes", [[(5, 3)] * 3, [(5, 3), (5, 4)], [(5, 2, 3)] * 2])
def test_cotangents_are_normalised_signals_over_the_count_and_the_signals_stay(
    how: str, shapes: list[tuple[int, ...]]
) -> None:
    signals = [drawn(shape, seed) for seed, shape in enumerate(shapes)]
    before = [signal.clone() for signal in signals]
    found = DirectFeedback(how).cotangents(signals, 7)  # type: ignore[arg-type]
    for one, signal in zip(found, before, strict=True):
        torch.testing.assert_close(one, normalise(signal, how) / 7)  # type: ignore[arg-type]
    assert all(torch.equal(*pair) for pair in zip(signals, before, strict=True))


def test_one_pass_serves_many_feedbacks(batch: Batch) -> None:
    network, rule = small("resmlp"), DirectFeedback()
    feedbacks = [rule.feedback(network, batch, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    for feedback, signals in zip(feedbacks, rule.signals_under(network, feedbacks, batch), strict=True):
        expected = rule.credit(network, feedback, batch).signals
        assert all(torch.equal(one, two) for one, two in zip(signals, expected, strict=True))


def test_a_regression_with_one_number_per_sample_has_a_column_of_errors(batch: Batch) -> None:
    network = small("resmlp")
    network.loss_fn = lambda outputs, targets: (outputs - targets).square()
    with torch.enable_grad():
        pieces = network.in_pieces(batch.inputs, EVERYTHING.learns)
        seen = local_pass(network, batch, replace(pieces, logits=pieces.logits[:, 0]))
    expected = 2 * (pieces.logits.detach()[:, 0] - batch.labels)
    torch.testing.assert_close(seen.error, expected[:, None])
    assert seen.count == 5


def test_products_are_asked_for_at_the_stage_that_they_belong_to(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    network, rule, asked = small("resmlp"), DirectFeedback(), list[Asked]()
    monkeypatch.setattr(Pieces, "products", lambda self, given, learning: asked.extend(given) or {})
    feedback = rule.feedback(network, batch, torch.Generator().manual_seed(1))
    rule.credit(network, feedback, batch, Scope(penalty=0.5))
    stages = [one.stage for one in asked]
    assert stages == [0, 1, 2, 3, 1, 2, 3]  # the embedding and three blocks, then the penalties of the blocks
    assert [one.output.grad_fn is not None for one in asked] == [True] * 7
