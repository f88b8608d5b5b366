"""The correlation behind ρ: its closed-form part, and whether its interval covers."""

from __future__ import annotations

import math

import pytest
import torch
from tests.probes.subjects import generator

from creditscope.probes.correlation import Pairs, estimate

IMAGES, WIDTH, DIRECTIONS = 200, 24, 4


def drawn(noise: float, seed: int, directions: int = DIRECTIONS) -> tuple[Pairs, float]:
    """Pairs of images whose gradients differ in size by decades, and ρ over infinitely many directions."""
    fixed, chance = generator(0), generator(seed)
    sizes = torch.randn(IMAGES, 1, generator=fixed, dtype=torch.float64).exp()
    gradient = sizes * torch.randn(IMAGES, WIDTH, generator=fixed, dtype=torch.float64)
    credit = 0.3 * gradient + sizes * torch.randn(IMAGES, WIDTH, generator=fixed, dtype=torch.float64)
    v = torch.randn(directions, IMAGES, WIDTH, generator=chance, dtype=torch.float64)
    v = v / v.norm(dim=-1, keepdim=True)
    x, s = (v * credit).sum(-1), (v * gradient).sum(-1)
    y = s + noise * torch.randn(s.shape, generator=chance, dtype=torch.float64)
    moments = [(a * b).sum(-1) / WIDTH for a, b in ((credit, gradient), (credit, credit), (gradient, gradient))]
    both, own, slope = (moment.mean() for moment in moments)
    return Pairs(x, s, y, *moments), (both / (own * (slope + noise**2)).sqrt()).item()


def test_where_the_gradient_says_all_the_correlation_needs_no_sample():
    pairs, truth = drawn(0.0, 1)
    assert tuple(pairs.rho()) == pytest.approx((truth, 0.0), abs=1e-12)
    assert tuple(pairs.rho_bp()) == pytest.approx((1.0, 0.0), abs=1e-12)
    assert pairs.precise


@pytest.mark.parametrize("noise", [0.05, 0.5, 20.0])
def test_the_interval_covers_the_limit_of_many_directions(noise):
    """19 in 20 times, with the gradient as control variate (little noise) and without (much)."""
    found = [(pairs.rho(), truth) for pairs, truth in (drawn(noise, seed) for seed in range(1, 401))]
    covered = sum(abs(one.value - truth) <= one.error for one, truth in found) / len(found)
    assert 0.91 < covered < 0.985


def test_more_directions_narrow_the_interval_as_their_root():
    few, many = (drawn(0.5, 1, directions)[0].rho().error for directions in (8, 128))
    assert few / many == pytest.approx(4, rel=0.3)


def test_a_change_that_the_gradient_does_not_foretell_has_pearsons_correlation():
    x, y, s = torch.randn(3, 5, 100, generator=generator(), dtype=torch.float64)
    measured = 0.6 * x + 0.8 * y
    ones = torch.full((100,), 1.0, dtype=torch.float64)
    expected = torch.corrcoef(torch.stack([x.flatten(), measured.flatten()]))[0, 1].item()
    for scale in (1.0, 1e-160):
        pairs = Pairs(scale * x, 50 * s, measured, 0 * ones, scale * scale * ones, 2500 * ones)
        assert estimate(pairs).value == pytest.approx(expected)


def test_a_loss_that_does_not_change_has_no_correlation_and_needs_no_further_direction():
    pairs, _ = drawn(0.0, 1)
    still = Pairs(pairs.credit, pairs.gradient, 0 * pairs.measured, pairs.both, pairs.own, pairs.slope)
    assert math.isnan(still.rho().value)
    assert still.precise


def test_images_and_directions_join_in_their_own_axes():
    pairs, _ = drawn(0.5, 1)
    halves = [Pairs(*(part[..., kept] for part in pairs._parts)) for kept in (slice(80), slice(80, None))]
    rounds = [Pairs(*(part[kept] for part in pairs._parts[:3]), *pairs._parts[3:]) for kept in (slice(1), slice(1, 4))]
    assert halves[0].beside(halves[1]).rho() == rounds[0].below(rounds[1]).rho() == pairs.rho()


def test_few_images_are_never_precise():
    pairs, _ = drawn(0.0, 1)
    assert not Pairs(*(part[..., :63] for part in pairs._parts)).precise
