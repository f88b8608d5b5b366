"""Norms against sums over plain numbers, where float32 would over- or underflow too."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from creditscope.errors import InvalidInput
from creditscope.evidence.norms import (
    error_norms,
    lengths,
    non_finite,
    norm_rows,
    norm_table,
    ordinary,
    position_norms,
    position_products,
)


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def slow(rows: Tensor) -> list[float]:
    return [math.sqrt(math.fsum(number**2 for number in row)) for row in rows.double().flatten(0, -2).tolist()]


def test_numbers_that_are_not_finite_are_counted() -> None:
    assert non_finite(torch.tensor([1.0, math.nan, math.inf, -math.inf, 1e38, 0.0])) == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [1e-30, 1e-15, 1.0, 1e15, 1e30])
def test_a_table_of_norms_is_exact_at_every_scale(scale: float, dtype: torch.dtype) -> None:
    vectors = [drawn(4, 3), drawn(4, 5, seed=1)]
    vectors = [
        vector.to(dtype) if dtype == torch.float16 else (vector.double() * scale).to(dtype) for vector in vectors
    ]
    found = norm_table(vectors)
    assert found.dtype == torch.float64
    assert found.tolist() == [pytest.approx(slow(vector), rel=1e-6) for vector in vectors]


def test_only_norms_between_the_safe_ones_are_ordinary() -> None:
    for low, high, expected in ((1e-14, 1e14, True), (1e-16, 1.0, False), (1.0, 1e16, False), (math.nan, 1.0, False)):
        assert ordinary(torch.tensor([1.0, low, high])) is expected
    assert ordinary(torch.ones(2, device="meta")) is False


def test_float32_is_squared_in_float32_and_anything_else_in_float64() -> None:
    for dtype, expected in ((torch.float32, torch.float32), (torch.float16, torch.float64), (torch.float64,) * 2):
        (row,) = norm_rows([drawn(2, 3, 4).to(dtype)])
        assert (row.dtype, row.shape) == (expected, (6,))


def test_half_precision_behind_float32_is_squared_in_float64_too() -> None:
    """A stream may begin in float32 and go on in float16, whose largest number is 65,504."""
    first, second = norm_rows([torch.full((1, 4), 4e4), torch.full((1, 4), 4e4, dtype=torch.float16)])
    assert first.item() == second.item() == 8e4


def test_layers_of_unlike_positions_have_no_common_table() -> None:
    with pytest.raises(InvalidInput, match="the states have 3, 2 positions per sample"):
        norm_rows([drawn(2, 3, 4), drawn(2, 2, 4)])
    assert len(norm_rows([drawn(2, 3, 4), drawn(2, 3, 5)])) == 2


@pytest.mark.parametrize(
    ("shape", "rows", "copies", "flat"),
    [((4, 3), 4, 1, False), ((4, 3), 8, 2, False), ((4, 2, 3), 8, 1, False), ((4, 2, 3), 4, 1, True),
     ((4, 2, 3), 12, 3, True), ((4, 2, 1), 8, 1, False)],
)  # fmt: skip
def test_every_row_has_the_error_of_its_sample_or_position(
    shape: tuple[int, ...], rows: int, copies: int, flat: bool
) -> None:
    error = drawn(*shape)
    expected = [norm for norm in slow(error.flatten(1) if flat else error) for _ in range(copies)]
    assert error_norms(error, rows).tolist() == pytest.approx(expected)


def test_all_tokens_together_have_the_root_of_the_mean_square() -> None:
    states = [drawn(2, 3, 4), drawn(2, 5, 4, seed=1)]
    expected = [[math.sqrt(sum(norm**2 for norm in slow(sample)) / len(sample)) for sample in s] for s in states]
    assert position_norms(states).tolist() == [pytest.approx(row) for row in expected]


@pytest.mark.parametrize("shape", [(2, 4), (2, 3, 4), (2, 4, 3, 5), (2, 4, 2, 3, 2)])
def test_positions_have_their_own_lengths_and_products(shape: tuple[int, ...]) -> None:
    state, gradient = drawn(*shape), drawn(*shape, seed=1)
    rows = [t.flatten(2).transpose(1, 2) if len(shape) > 3 else t.view(2, -1, 4) for t in (state, gradient)]
    expected = [slow(sample) for sample in rows[0]]
    assert lengths(state).tolist() == [pytest.approx(row) for row in expected]
    (found,) = position_products([state], [gradient])
    pairs = zip(expected, (slow(sample) for sample in rows[1]), strict=True)
    assert found.tolist() == pytest.approx([math.fsum(h * g for h, g in zip(*pair, strict=True)) for pair in pairs])
