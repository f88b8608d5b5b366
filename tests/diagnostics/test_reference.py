"""D2 fires below the floor of the clamp, tells collapse from fit, and does not move with the batch size."""

from __future__ import annotations

import math
import re
from pathlib import Path
from statistics import median_low

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnostics.evidence_by_hand import evidence, find

import creditscope
from creditscope.diagnostics.reference import reference_gain

FLOOR = 1e-7
USES = ("diagnostics", "evidence", "partial", "papers")


@pytest.mark.parametrize(("value", "status"), [(1.001e-7, "pass"), (0.999e-7, "fires"), (0.0, "fires")])
def test_d2_fires_exactly_past_its_limit(value: float, status: str) -> None:
    found = find("D2", evidence(gradient=[[1.0], [128 * value]]))
    assert found.status == status
    assert found.value == pytest.approx(value)
    assert found.per_layer == pytest.approx((1 / 128, value))


@pytest.mark.parametrize(("gain", "cause"), [(1.001e-7, "fitted"), (0.999e-7, "collapsed")])
def test_a_small_gradient_is_collapsed_only_if_its_gain_is_small(gain: float, cause: str) -> None:
    error = 0.5
    found = find("D2", evidence(gradient=[[1.0], [128 * gain * error]], error=[error]))
    assert (found.status, found.cause) == ("fires", cause)
    assert cause in found.note


def test_a_well_fitted_network_is_not_collapsed() -> None:
    found = find("D2", evidence(gradient=[[1e-9] * 3, [1e-9] * 3], error=[1.1e-9] * 3))
    assert (found.status, found.cause) == ("fires", "fitted")


def test_without_any_error_left_nothing_tells_collapsed_from_fitted() -> None:
    given_evidence = evidence(gradient=[[0.0, 0.0], [0.0, 0.0]], error=[0.0, 0.0])
    assert (find("D2", given_evidence).status, find("D2", given_evidence).cause) == ("fires", "")
    assert "collapsed cannot be told from fitted" in find("D2", given_evidence).note
    assert math.isnan(reference_gain(given_evidence))


@given(st.lists(st.tuples(st.floats(1e-30, 10), st.one_of(st.just(0.0), st.floats(1e-12, 2))), min_size=1, max_size=9))
def test_value_and_gain_are_lower_medians(samples: list[tuple[float, float]]) -> None:
    gradients, errors = zip(*samples, strict=True)
    given_evidence = evidence(gradient=[gradients, gradients], error=errors)
    assert find("D2", given_evidence).value == pytest.approx(median_low(gradients) / 128)
    ratios = [g / e for g, e in samples if e > 0]
    if ratios:
        assert reference_gain(given_evidence) == pytest.approx(median_low(ratios))


@given(st.integers(1, 40))
def test_d2_does_not_move_with_the_number_of_copies(copies: int) -> None:
    once = torch.rand(2, 5, generator=torch.Generator().manual_seed(0))
    many = once.repeat(1, copies)
    one, more = (find("D2", evidence(gradient=g, error=torch.ones(g.shape[1]))) for g in (once, many))
    assert one.value == more.value


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_image_that_is_not_a_number_leaves_no_value(bad: float) -> None:
    gradient = [[1.0] * 3, [1.0, bad, bad]]
    assert find("D2", evidence(gradient=gradient, error=[1.0] * 3)).status == "undefined"


def test_the_note_shows_the_gain() -> None:
    assert find("D2", evidence(gradient=[[1.0], [0.5]], error=[0.25])).note == "gain ‖g_L‖/‖e‖ 2"


def test_the_published_batch_is_one_constant() -> None:
    package = Path(creditscope.__file__).parent
    constant = re.compile(r"^([A-Z_]+) = 128\b", re.MULTILINE)
    paths = [package / "batch.py", *(path for part in USES for path in sorted((package / part).glob("*.py")))]
    found = [name for path in paths for name in constant.findall(path.read_text(encoding="utf-8"))]
    assert found == ["PUBLISHED_BATCH", "GROUP"]  # GROUP: how many images make one direction of D4
