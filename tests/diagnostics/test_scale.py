"""D1 fires past fifty-fold growth across one block, in both of its forms."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median_low

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnostics.evidence_by_hand import evidence, find

norms = st.floats(1e-30, 1e30)


@pytest.mark.parametrize(("growth", "status"), [(49.999, "pass"), (50.0, "pass"), (50.001, "fires")])
def test_d1_fires_exactly_past_its_limit(growth: float, status: str) -> None:
    found = find("D1", evidence(hidden=[[2.0], [4.0], [4.0 * growth], [5.0]]))
    assert found.status == status
    assert found.value == pytest.approx(growth)
    assert found.per_layer == pytest.approx((2.0, growth, 5 / (4 * growth)))
    assert found.note == "largest across block 1, h_1 to h_2"


@pytest.mark.parametrize(("growth", "status"), [(49.999, "pass"), (50.0, "pass"), (50.001, "fires")])
def test_the_earlier_form_fires_past_fifty_times_layer_zero(growth: float, status: str) -> None:
    found = find("D1:april", evidence(hidden=[[2.0], [20.0], [2.0 * growth]]))
    assert (found.code, found.status) == ("D1", status)
    assert found.per_layer == pytest.approx((1.0, 10.0, growth))


def test_a_healthy_vit_false_fires_only_in_the_earlier_form() -> None:
    given_evidence = evidence(
        hidden=[[0.02], [0.5], [3.0]]
    )  # a class token starts tiny and grows a little in each block
    assert find("D1", given_evidence).status == "pass"
    assert find("D1:april", given_evidence).status == "fires"


@given(st.integers(1, 9).flatmap(lambda n: st.lists(st.lists(norms, min_size=n, max_size=n), min_size=2, max_size=5)))
def test_d1_is_the_largest_ratio_of_lower_medians(hidden: list[list[float]]) -> None:
    medians = [median_low(layer) for layer in hidden]
    growth = [after / before for before, after in pairwise(medians)]
    found = find("D1", evidence(hidden=hidden))
    assert found.per_layer == pytest.approx(growth, rel=1e-12)
    assert found.value == pytest.approx(max(growth), rel=1e-12)
    assert find("D1:april", evidence(hidden=hidden)).value == pytest.approx(max(m / medians[0] for m in medians))


@given(st.permutations(range(6)), st.floats(1e-20, 1e20))
def test_order_and_unit_of_the_images_do_not_matter(order: list[int], unit: float) -> None:
    hidden = torch.rand(4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.1
    for name in ("D1", "D1:april"):
        assert find(name, evidence(hidden=unit * hidden[:, order])).value == pytest.approx(
            find(name, evidence(hidden=hidden)).value
        )


@pytest.mark.parametrize("name", ["D1", "D1:april"])
@pytest.mark.parametrize(
    "hidden",
    [
        [[1.0], [math.nan], [1.0]],
        [[0.0], [0.0], [1.0]],
        [[0.0], [1.0], [1.0]],
        [[1.0], [math.inf], [1.0]],
        [[math.nan]] * 3,
    ],
)
def test_growth_that_is_not_a_number_is_undefined(name: str, hidden: list[list[float]]) -> None:
    assert find(name, evidence(hidden=hidden)).status == "undefined"


def test_one_image_that_is_not_a_number_is_enough() -> None:
    assert find("D1", evidence(hidden=[[1.0] * 9, [1.0] * 8 + [math.nan]])).status == "undefined"


def test_a_stream_without_blocks_has_no_growth() -> None:
    found = find("D1", evidence(hidden=[[1.0]]))
    assert (found.status, found.note) == ("skipped", "the network has no blocks to grow across")


@pytest.mark.parametrize("hidden", [[[1.0], [math.nan], [2.0]], [[1.0], [0.0], [0.0]], [[1.0], [1.0], [math.inf]]])
def test_a_growth_that_is_not_a_number_never_passes(hidden: list[list[float]]) -> None:
    found = find("D1", evidence(hidden=hidden))
    assert found.status != "pass"
    assert not math.isfinite(found.value)
    assert not math.isfinite(found.per_layer[int(found.note.split()[3].rstrip(","))])  # the block that the note names
