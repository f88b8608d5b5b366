"""D3 as protocol three judges it: the margin to the frozen control with the interval that the seeds allow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.statistics.intervals import newcombe_interval
from creditscope.verdict import Finding


def depth(trained: tuple[float, ...] | None, control: tuple[float, ...] | None, **rest: object) -> Finding:
    return find("D3:published", evidence(accuracy=trained, control_accuracy=control, **rest))


@pytest.mark.parametrize(("margin", "status"), [(0.0201, "pass"), (0.0199, "fires"), (-0.3, "fires")])
def test_with_one_seed_the_point_decides(margin: float, status: str) -> None:
    found = depth((0.5 + margin,), (0.5,))
    assert (found.status, found.value) == (status, pytest.approx(100 * margin))
    assert found.interval is None
    assert found.note == "single seed: seed-to-seed variation was not measured"


def test_the_remedy_fits_the_case() -> None:
    assert "train one" not in depth((0.5,), (0.5,)).remedy
    assert depth((0.5,), (0.5,)).remedy.startswith("Report the accuracy of the frozen control")
    assert depth((0.5,), None).remedy.startswith("Train a control with frozen blocks")
    assert depth(None, (0.5,)).remedy.startswith("Give the accuracy of the network")
    assert depth((0.9,), (0.5,)).remedy == ""


@given(st.integers(0, 998))
def test_exactly_two_points_never_fire_whatever_the_binary_fractions(right: int) -> None:
    trained, control = (right + 20) / 1000, right / 1000
    assert (depth((trained,), (control,)).status, depth((trained,), (control,)).value) == ("pass", 2.0)
    assert depth((trained, trained), (control, control)).status == "pass"
    assert depth((trained - 0.001,), (control,)).status == "fires"


def test_with_one_seed_and_known_images_newcombe_may_leave_it_undecided() -> None:
    low, high = newcombe_interval(0.55, 1000, 0.52, 1000)
    found = depth((0.55,), (0.52,), accuracy_images=1000)
    assert found.interval == pytest.approx((100 * low, 100 * high))
    assert found.status == "undecided"
    assert found.note == (
        "single seed: the interval reflects the 1,000 test images only, not seed-to-seed variation; the limit lies "
        "inside the interval"
    )
    assert depth((0.75,), (0.52,), accuracy_images=1000).status == "pass"
    assert depth((0.40,), (0.52,), accuracy_images=1000).status == "fires"


@pytest.mark.parametrize(
    ("trained", "control", "status"),
    [
        ((0.50, 0.51, 0.52), (0.40, 0.41, 0.42), "pass"),
        ((0.50, 0.55, 0.45), (0.45, 0.40, 0.50), "undecided"),
        ((0.40, 0.41, 0.42), (0.40, 0.41, 0.42), "fires"),
    ],
)
def test_matched_seeds_are_judged_in_pairs(trained: tuple[float, ...], control: tuple[float, ...], status: str) -> None:
    found = depth(trained, control)
    assert found.status == status
    assert found.note.startswith("paired t-interval over 3 seeds")
    assert ("the limit lies inside the interval" in found.note) == (found.status == "undecided")
    assert found.per_seed == pytest.approx([100 * (a - b) for a, b in zip(trained, control, strict=True)])


def test_pairing_decides_where_the_means_alone_cannot() -> None:
    trained, control = (0.30, 0.50, 0.70), (0.25, 0.449, 0.651)
    assert depth(trained, control).status == "pass"
    assert depth(trained, control, matched_seeds=False).status == "undecided"


def test_each_number_of_seeds_gets_its_own_interval() -> None:
    left, right = (0.50, 0.52, 0.57), (0.41, 0.43)
    welch = stats.ttest_ind(left, right, equal_var=False).confidence_interval(0.95)
    one_sample = stats.ttest_1samp(np.array(left) - 0.4, 0).confidence_interval(0.95)
    reversed_one = stats.ttest_1samp(0.5 - np.array(right), 0).confidence_interval(0.95)
    for found, expected, note in [
        (depth(left, right), welch, "Welch's t-interval over 3 and 2 seeds, not matched"),
        (depth(left, (0.4,)), one_sample, "t-interval over 3 seeds; the control is taken as exact"),
        (depth((0.5,), right), reversed_one, "t-interval over 2 controls; the accuracy is taken as exact"),
    ]:
        assert found.interval == pytest.approx((100 * expected.low, 100 * expected.high), abs=1e-8)
        assert found.note.startswith(note)
    assert depth(left, right).value == pytest.approx(100 * (sum(left) / 3 - sum(right) / 2))


def test_two_seeds_are_enough_for_an_interval() -> None:
    assert depth((0.50, 0.52), (0.41, 0.43)).note.startswith("paired t-interval over 2 seeds")
    assert depth((0.50, 0.52), (0.41,)).note.startswith("t-interval over 2 seeds; the control is taken as exact")


def test_matched_seeds_may_be_declared_unmatched() -> None:
    found = depth((0.50, 0.52), (0.41, 0.43), matched_seeds=False)
    assert found.note == "Welch's t-interval over 2 and 2 seeds, not matched"
    assert found.per_seed == ()


@pytest.mark.parametrize(
    ("trained", "control"),
    [
        ((math.nan,), (0.4,)),
        ((0.4,), (math.nan,)),
        ((0.5, math.nan), (0.4, 0.4)),
        ((0.5, 0.6), (math.nan,)),
        ((0.5, 0.6, 0.7), (0.4, math.nan)),
        ((math.nan,), (0.4, 0.5)),
    ],
)
@pytest.mark.parametrize("images", [None, 1000])
def test_a_seed_that_diverged_leaves_depth_undefined(
    trained: tuple[float, ...], control: tuple[float, ...], images: int | None
) -> None:
    assert depth(trained, control, accuracy_images=images).status == "undefined"


def test_without_a_control_or_an_accuracy_depth_is_open() -> None:
    no_control, no_accuracy = depth((0.5,), None), depth(None, (0.5,))
    assert (no_control.status, no_accuracy.status) == ("skipped", "skipped")
    assert no_control.note == "no frozen-block control was supplied"
    assert no_accuracy.note == "no accuracy was given, and these labels do not allow one to be measured"
    assert no_control.remedy
