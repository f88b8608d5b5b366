"""How a state with positions is read: at any resolution alike, and not blind to maps whose mean is zero."""

from __future__ import annotations

import pytest
import torch

from creditscope.stream.reading import Read, Reading


def lengths(reading: Reading, state: torch.Tensor) -> torch.Tensor:
    rows, factor = reading.rows(state)
    return rows.double().norm(dim=-1) * factor


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 3, 4, 6), (5, 3, 2, 4, 3)])
def test_the_length_of_a_pooled_state_is_the_root_mean_square_over_positions(shape: tuple[int, ...]) -> None:
    state = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    positions = state if len(shape) == 3 else state.flatten(2).transpose(1, 2)
    slow = torch.stack([torch.stack([p.double().norm() ** 2 for p in sample]).mean().sqrt() for sample in positions])
    torch.testing.assert_close(lengths(Reading("mean"), state), slow)


def test_a_map_whose_mean_is_zero_has_a_length() -> None:
    state = torch.randn(4, 8, 16, 16, generator=torch.Generator().manual_seed(0))
    state -= state.mean((2, 3), keepdim=True)
    assert lengths(Reading("auto"), state).min() > 2


@pytest.mark.parametrize("factor", [2, 4])
def test_resolution_changes_neither_the_length_nor_what_the_loss_feels(factor: int) -> None:
    """Every pixel repeated: the state keeps its length, and a mean over positions keeps its summed gradient."""
    small = torch.randn(3, 5, 4, 4, generator=torch.Generator().manual_seed(0))
    large = small.repeat_interleave(factor, 2).repeat_interleave(factor, 3)
    reading = Reading("auto")
    torch.testing.assert_close(lengths(reading, small), lengths(reading, large))
    weights = torch.randn(5)
    gradients = []
    for state in (small, large):
        leaf = state.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((leaf.mean((2, 3)) @ weights).sum(), leaf)
        gradients.append(reading.vectors(gradient))
    torch.testing.assert_close(*gradients)


def test_one_token_is_read_as_it_stands() -> None:
    state = torch.randn(3, 4, 6)
    for rule, token in (("first", 0), (2, 2), (-1, 3), ("auto", 0)):
        assert torch.equal(Reading(rule).vectors(state), state[:, token])
        rows, factor = Reading(rule).rows(state)
        assert torch.equal(rows, state[:, token])
        assert factor == 1


@pytest.mark.parametrize("shape", [(4, 6), (4, 5, 6), (4, 6, 3, 2), (4, 6, 2, 3, 2)])
@pytest.mark.parametrize("rule", ["mean", "first", "all"])
def test_a_gradient_read_as_vectors_is_felt_when_the_state_moves_by_them(shape: tuple[int, ...], rule: Read) -> None:
    """⟨g, widened(v)⟩ = ⟨vectors(g), v⟩ for any v, at tokens, maps and volumes."""
    generator, reading = torch.Generator().manual_seed(0), Reading(rule)
    gradient = torch.randn(shape, generator=generator, dtype=torch.float64)
    read = reading.vectors(gradient)
    move = torch.randn(read.shape, generator=generator, dtype=torch.float64)
    torch.testing.assert_close((gradient * reading.widened(move, gradient)).sum(), (read * move).sum())
