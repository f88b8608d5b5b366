"""Γ is a cosine: it knows directions, not sizes; the clamped one knows sizes too."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from tests.probes.subjects import batches, dfa, network

from creditscope.evidence.alignment import (
    AlignmentLedger,
    MeanCosine,
    clamped_cosines,
    cosines_with,
    exact_cosines,
    unit_vectors,
)
from creditscope.stream.find import find_stream
from creditscope.stream.trace import capture, cross_entropy

scales = st.floats(-12, 12).map(lambda power: 10.0**power)


def vectors(rows: int = 6, width: int = 9, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.Generator().manual_seed(seed)
    return torch.randn(rows, width, generator=drawn), torch.randn(rows, width, generator=drawn)


def slow_cosine(a: list[float], g: list[float]) -> float:
    dot = math.fsum(x * y for x, y in zip(a, g, strict=True))
    return dot / (math.sqrt(math.fsum(x * x for x in a)) * math.sqrt(math.fsum(y * y for y in g)))


@given(st.integers(0, 99))
def test_the_cosine_is_the_cosine(seed):
    a, g = (side.double() for side in vectors(seed=seed))
    slow = [slow_cosine(*pair) for pair in zip(a.tolist(), g.tolist(), strict=True)]
    assert exact_cosines(a, g).tolist() == pytest.approx(slow, abs=1e-12)
    assert clamped_cosines(a, g).tolist() == pytest.approx(slow, abs=1e-12)


@given(scales, scales)
def test_gamma_does_not_move_with_the_size_of_either_vector(a_scale, g_scale):
    a, g = vectors()
    assert torch.allclose(exact_cosines(a * a_scale, g * g_scale), exact_cosines(a, g), atol=1e-6)


@pytest.mark.parametrize("scale", [1e-9, 1e-12])
def test_the_clamped_cosine_shrinks_visibly_with_a_small_gradient(scale):
    a, g = vectors()
    shrunk = clamped_cosines(a, g * scale).abs() / exact_cosines(a, g).abs()
    assert (shrunk < 0.7).all()
    assert torch.allclose(clamped_cosines(a, g * scale), F.cosine_similarity(a.double(), g.double() * scale), atol=1e-9)


def test_two_opposite_gradients_of_size_1e_30_score_minus_one():
    g = torch.full((1, 16), 1e-30)
    assert exact_cosines(g, -g).item() == pytest.approx(-1.0, abs=1e-12)
    assert exact_cosines(g, g).item() == pytest.approx(1.0, abs=1e-12)
    assert clamped_cosines(g, -g).item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [1e-45, 1e-38, 1e38])
def test_the_smallest_and_largest_numbers_of_float32_have_a_direction(size):
    a = torch.tensor([[size, 0.0]])
    assert exact_cosines(a, torch.tensor([[1.0, 1.0]])).item() == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_float64_vectors_whose_squares_are_beyond_float64_have_a_direction(size):
    a, g = (side.double() for side in vectors())
    assert torch.allclose(exact_cosines(a * size, g * size), exact_cosines(a, g))


def test_a_zero_vector_has_no_cosine():
    zero, one = torch.zeros(1, 3), torch.ones(1, 3)
    assert all(math.isnan(exact_cosines(*pair).item()) for pair in ((zero, one), (one, zero), (zero, zero)))


@pytest.mark.parametrize("odd", [math.nan, math.inf])
def test_a_vector_that_is_not_finite_has_no_cosine(odd):
    assert math.isnan(exact_cosines(torch.tensor([[odd, 1.0]]), torch.ones(1, 2)).item())


def test_the_ledger_averages_the_samples_that_have_a_cosine_and_counts_the_others():
    a, g = vectors(8)
    a[3] = 0.0
    ledger = AlignmentLedger()
    for part in (slice(0, 5), slice(5, 8)):
        ledger.add([a[part], g[part]], [g[part], g[part]])
    found = ledger.alignment()
    assert found.exact[0] == pytest.approx(exact_cosines(a, g)[[0, 1, 2, 4, 5, 6, 7]].mean().item())
    assert found.exact[1] == pytest.approx(1.0)
    assert (found.undefined, found.samples) == ((1, 0), 8)


def test_the_clamped_mean_is_that_of_the_usual_tool_on_the_mean_loss_of_128_samples():
    a, g = vectors(7)
    g = g * 1e-7  # so small that 1/128 of it is clamped
    ledger = AlignmentLedger()
    for part in (slice(0, 4), slice(4, 7)):
        ledger.add([a[part]], [g[part]])
    usual = F.cosine_similarity(a.double(), g.double() / 128, eps=1e-8)
    assert ledger.alignment().clamped == pytest.approx([usual.mean().item()])
    assert clamped_cosines(a, g * 1e-3).tolist() == pytest.approx(F.cosine_similarity(a.double(), g.double() * 1e-3))


def test_positions_count_like_samples():
    a, g = vectors(6)
    one, other = AlignmentLedger(), AlignmentLedger()
    one.add([a], [g])
    other.add([a.view(2, 3, 9)], [g.view(2, 3, 9)])
    assert other.alignment() == one.alignment()


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unit_vectors_have_length_one_and_the_direction_of_their_vector(scale, dtype):
    a, g = (side.to(dtype) for side in vectors())
    unit = unit_vectors(g * scale)
    assert unit.dtype == dtype
    expected = g.double() / g.double().norm(dim=1, keepdim=True)
    assert torch.allclose(unit.double(), expected, atol=1e-6)
    assert torch.allclose(cosines_with([unit, unit], [a, 3 * a]), exact_cosines(a, g).expand(2, -1), atol=1e-5)
    assert unit_vectors(torch.zeros(1, 3)).isnan().all()
    assert torch.equal(unit_vectors((g * scale).view(2, 3, 9)), unit.view(2, 3, 9))


def test_the_mean_of_draws_counts_what_is_defined_in_each():
    means = MeanCosine()
    means.add(torch.tensor([[[0.5, math.nan, 0.1], [math.nan, math.nan, math.nan]]]))  # (draws, layers, samples)
    means.add(torch.tensor([[[0.3], [math.nan]]]))
    assert means.defined().tolist() == [[3, 0]]
    assert means.means()[0, 0].item() == pytest.approx(0.3)
    assert math.isnan(means.means()[0, 1])


def test_a_layer_without_credit_is_undefined():
    g = vectors(4)[1]
    ledger = AlignmentLedger()
    ledger.add([torch.zeros_like(g)], [g])
    found = ledger.alignment()
    assert math.isnan(found.exact[0])
    assert found.undefined == (4,)


@given(st.permutations(range(6)))
def test_order_of_the_samples_does_not_matter(order):
    a, g = vectors()
    one, other = AlignmentLedger(), AlignmentLedger()
    one.add([a], [g])
    other.add([a[order]], [g[order]])
    assert one.alignment().exact == pytest.approx(other.alignment().exact)
    assert one.alignment().clamped == pytest.approx(other.alignment().clamped)


def scaled_network(scale: float):
    """A network whose states are all `scale` times as large, with the same logits: its LayerNorms have no eps."""
    net = network()
    for module in net.modules():
        if isinstance(module, torch.nn.LayerNorm):
            module.eps = 0.0
    with torch.no_grad():
        for tensor in (net.embed.weight, net.embed.bias, *(block.w2.weight for block in net.blocks)):
            tensor *= scale
    return net


def gammas(net, loss_scale: float, credit_scale: float):
    (batch,) = batches(64, 64)
    trace = capture(find_stream(net), batch, lambda logits, labels: loss_scale * cross_entropy(logits, labels))
    credit = [credit_scale * a for a in dfa(net).signals(batch)]
    ledger = AlignmentLedger()
    ledger.add(credit, list(trace.gradients))
    return ledger.alignment()


@given(scales, scales, scales)
def test_gamma_does_not_move_when_states_credit_or_loss_are_scaled(states, credit, loss):
    plain, moved = gammas(scaled_network(1.0), 1.0, 1.0), gammas(scaled_network(states), loss, credit)
    assert moved.exact == pytest.approx(plain.exact, abs=1e-5)
    clamped_by = 1e-8 * 64 / (1.0 * loss / states)
    if clamped_by > 1e3 or credit < 1e-11:
        assert max(map(abs, moved.clamped)) < 0.05 * max(map(abs, plain.exact))
