"""D4 is the mean pairwise cosine of group directions."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnostics.evidence_by_hand import directions, evidence, find
from torch import Tensor

from creditscope.diagnostics.drift import stability_layer
from creditscope.evidence.records import Directions


def units(count: int, width: int, seed: int, offset: float = 0.0) -> Tensor:
    drawn = torch.randn(count, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + offset
    return drawn / drawn.norm(dim=1, keepdim=True)


@given(st.integers(2, 12), st.integers(2, 20), st.integers(0, 1000), st.floats(0, 3))
def test_the_sum_of_units_gives_the_mean_over_pairs(count: int, width: int, seed: int, offset: float) -> None:
    drawn = units(count, width, seed, offset)
    slow = [float(u @ v) for u, v in itertools.combinations(drawn, 2)]
    found = find("D4", evidence(directions=directions(list(drawn))))
    assert found.value == pytest.approx(sum(slow) / len(slow), abs=1e-12)


@pytest.mark.parametrize(("cosine", "status"), [(0.2999, "pass"), (0.3001, "fires")])
def test_d4_fires_exactly_past_its_limit(cosine: float, status: str) -> None:
    pair = torch.tensor([[1.0, 0.0], [cosine, math.sqrt(1 - cosine**2)]], dtype=torch.float64)
    found = find("D4", evidence(directions=directions(list(pair))))
    assert (found.status, found.value) == (status, pytest.approx(cosine))


def test_equal_directions_agree_fully_and_opposite_ones_fully_disagree() -> None:
    up = torch.tensor([1.0, 0.0])
    assert find("D4", evidence(directions=directions([up] * 8))).value == pytest.approx(1.0)
    assert find("D4", evidence(directions=directions([up, -up]))).value == pytest.approx(-1.0)


def test_a_group_without_a_direction_makes_drift_undefined() -> None:
    found = find("D4", evidence(directions=directions([torch.tensor([1.0, 0.0]), torch.zeros(2)])))
    assert found.status == "undefined"


def test_a_group_that_is_not_a_number_makes_drift_undefined() -> None:
    bad = Directions((torch.full((3,), math.nan),) * 2, 8, (0, 0), 128)
    assert find("D4", evidence(directions=bad)).status == "undefined"


def test_the_layer_is_the_middle_of_the_stream() -> None:
    assert [stability_layer(depth) for depth in range(7)] == [0, 1, 1, 2, 2, 3, 3]
    sums = tuple(torch.tensor([math.sqrt(2 + 2 * cosine)]) for cosine in (0.9, 0.8, 0.1, 0.7, 0.6))
    found = find("D4", evidence(directions=Directions(sums, 2, (0,) * 5, 128)))
    assert found.per_layer == pytest.approx((0.9, 0.8, 0.1, 0.7, 0.6), abs=1e-6)
    assert found.value == pytest.approx(0.1, abs=1e-6)
    assert found.note.startswith("layer 2; 2 groups of 128 images")


def test_widths_may_differ_from_layer_to_layer() -> None:
    narrow, wide = units(3, 2, 0), units(3, 7, 1)
    given_directions = Directions((narrow.sum(0), wide.sum(0)), 3, (0, 0), 128)
    slow = sum(float(u @ v) for u, v in itertools.combinations(wide, 2)) / 3
    assert find("D4", evidence(directions=given_directions)).value == pytest.approx(slow)


@pytest.mark.parametrize(
    ("groups", "size", "note"),
    [
        (8, 128, "layer 1; 8 groups of 128 images"),
        (7, 128, "layer 1; 7 groups of 128 images (the limit was calibrated on 8)"),
        (9, None, "layer 1; 9 batches (the limit was calibrated on 8 groups of 128 images)"),
    ],
)
def test_fewer_groups_than_calibrated_are_noted(groups: int, size: int | None, note: str) -> None:
    assert find("D4", evidence(directions=directions([torch.tensor([1.0, 0.0])] * groups, size))).note == note


def test_one_batch_is_not_enough() -> None:
    found = find("D4", evidence())
    assert (found.status, found.note) == ("skipped", "needs at least two disjoint batches, got one")
