"""Γ^W: cosines of updates and gradients against a slow twin, and what they do not depend on."""

from __future__ import annotations

import math
from statistics import median_low

import pytest
import torch
from torch import Tensor

from creditscope.evidence.updates import UpdateCosines, median_cosines, update_cosines

STAGES = {"embed.w": 0, "blocks.0.w": 1, "blocks.0.b": 1, "head.w": 2}
SHAPES = {"embed.w": (3, 4), "blocks.0.w": (3, 3), "blocks.0.b": (3,), "head.w": (2, 3)}


def drawn(seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def slow(u: list[float], b: list[float]) -> float:
    dot = math.fsum(x * y for x, y in zip(u, b, strict=True))
    return dot / math.sqrt(math.fsum(x * x for x in u)) / math.sqrt(math.fsum(y * y for y in b))


def numbers(tensors: dict[str, Tensor], names: list[str]) -> list[float]:
    return [number for name in names for number in tensors[name].flatten().tolist()]


def test_cosines_agree_with_sums_over_plain_numbers() -> None:
    u, b = drawn(1), drawn(2)
    found = update_cosines(u, b, STAGES, 3)
    for name in SHAPES:
        assert found.tensors[name] == pytest.approx(slow(numbers(u, [name]), numbers(b, [name])), abs=1e-12)
    for stage, value in enumerate(found.stages):
        mine = [name for name in SHAPES if STAGES[name] == stage]
        assert value == pytest.approx(slow(numbers(u, mine), numbers(b, mine)), abs=1e-12)
    assert found.whole == pytest.approx(slow(numbers(u, list(SHAPES)), numbers(b, list(SHAPES))), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_the_scale_of_either_side_does_not_matter_and_its_sign_turns_the_sign(scale: float) -> None:
    u, b = drawn(1), drawn(2)
    plain = update_cosines(u, b, STAGES, 3)
    for sign in (1, -1):
        moved = update_cosines({name: sign * scale * t for name, t in u.items()}, b, STAGES, 3)
        assert moved.stages == pytest.approx([sign * value for value in plain.stages], rel=1e-5)
        assert moved.whole == pytest.approx(sign * plain.whole, rel=1e-5)


def test_a_scale_per_stage_leaves_stages_alone_and_changes_the_usual_number() -> None:
    """Why the cosine over the whole network is not judged: one large stage decides it."""
    b = drawn(2)
    u = {name: b[name] if STAGES[name] == 2 else drawn(1)[name] for name in b}
    large = {name: 1e4 * t if STAGES[name] == 2 else t for name, t in u.items()}
    large_b = {name: 1e4 * t if STAGES[name] == 2 else t for name, t in b.items()}
    one, other = update_cosines(u, b, STAGES, 3), update_cosines(large, large_b, STAGES, 3)
    assert other.stages == pytest.approx(one.stages)
    assert other.whole > 0.999
    assert one.whole < 0.9


def test_the_gradient_itself_scores_one_and_an_orthogonal_update_zero() -> None:
    b = drawn(2)
    assert update_cosines(b, b, STAGES, 3).stages == pytest.approx((1, 1, 1))
    flat = {"w": torch.tensor([1.0, 0.0])}, {"w": torch.tensor([0.0, 2.0])}
    assert update_cosines(*flat, {"w": 0}, 1).whole == 0


def test_without_an_update_a_cosine_is_undefined_and_its_stage_counts_zeros() -> None:
    u, b = drawn(1), drawn(2)
    del u["blocks.0.b"], u["head.w"]
    found = update_cosines(u, b, STAGES, 3)
    assert math.isnan(found.tensors["head.w"])
    assert math.isnan(found.stages[2])
    zeros = {**u, "blocks.0.b": torch.zeros(3)}
    assert found.stages[1] == update_cosines(zeros, b, STAGES, 3).stages[1]
    assert math.isnan(update_cosines(u, b, STAGES, 4).stages[3])


def test_the_median_over_batches_is_the_lower_middle_of_what_is_defined() -> None:
    values = [0.4, math.nan, 0.1, 0.3, 0.2]
    found = median_cosines([UpdateCosines({"w": v}, (v, 1.0), -v) for v in values])
    assert found.tensors["w"] == median_low([0.4, 0.1, 0.3, 0.2])
    assert found.stages == (0.2, 1.0)
    assert found.whole == -0.3
    assert math.isnan(median_cosines([UpdateCosines({"w": math.nan}, (), 0.0)]).tensors["w"])
