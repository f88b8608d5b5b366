"""What diagnostics read off the evidence, against plain lists of numbers."""

from __future__ import annotations

import math

import pytest
import torch
from tests.diagnostics.evidence_by_hand import evidence

from creditscope.evidence.alignment import Alignment
from creditscope.evidence.credit import CreditEvidence, HiddenBackprop, LabelDependence, LabelLeak, Null
from creditscope.evidence.records import NO_ERRORS, ReadoutProfile, Rival, percentile

HIDDEN = [[1.0, 4.0, 2.0], [3.0, 2.0, 8.0], [5.0, 1.0, 9.0]]
GRADIENT = [[0.5, 0.1, 0.3], [0.2, 0.9, 0.4], [0.7, 0.6, 0.8]]
ERROR = [0.5, 0.0, 2.0]  # the second image has none


def test_what_was_not_measured_is_nothing_or_says_why() -> None:
    given = evidence()
    assert (given.images, given.batches, given.matched_seeds, given.named_seeds) == (0, 0, True, False)
    credit = CreditEvidence(Alignment((1.0,), (1.0,), (0,), (4,), 4))
    assert (credit.local, credit.images) == (True, 0)
    assert (Null((), ()).images, LabelDependence((), ()).images) == (0, 0)
    leak, hidden = LabelLeak(0.5), HiddenBackprop(())
    assert (leak.flipped, leak.images, leak.trials) == (0, 0, 1)
    assert (hidden.images, hidden.reads_network) == (0, True)


def test_medians_are_the_lower_middle_over_all_images() -> None:
    given = evidence(HIDDEN, GRADIENT, ERROR)
    assert given.hidden_medians.tolist() == [2.0, 3.0, 5.0]
    assert given.gradient_medians.tolist() == [0.3, 0.4, 0.7]
    assert evidence([[1.0, 2.0, 3.0, 4.0]] * 2).hidden_medians.tolist() == [2.0, 2.0]


def test_images_without_an_error_have_no_sensitivity() -> None:
    given = evidence(HIDDEN, GRADIENT, ERROR, step_norms=torch.tensor([[6.0, 1.0, 7.0], [2.0, 1.0, 3.0]]))
    expected = [[h[i] * g[i] / ERROR[i] for i in (0, 2)] for h, g in zip(HIDDEN, GRADIENT, strict=True)]
    assert given.sensitivities.tolist() == [pytest.approx(row) for row in expected]
    assert given.sensitivity_tails.tolist() == pytest.approx([min(row) for row in expected])
    gains = [min(g[0] / 0.5, g[2] / 2.0) for g in GRADIENT]
    assert given.gain_tails.tolist() == pytest.approx(gains)
    steps = [[6.0 * 0.2 / 0.5, 7.0 * 0.4 / 2.0], [2.0 * 0.7 / 0.5, 3.0 * 0.8 / 2.0]]
    assert given.influences.tolist() == [pytest.approx(row) for row in steps]


def test_tails_are_the_tenth_of_a_hundred_images_and_a_small_error_counts_too() -> None:
    norms = torch.arange(1.0, 102.0).expand(2, -1)
    given = evidence(norms, norms, torch.full((101,), 0.5))
    assert given.sensitivity_tails.tolist() == [2 * 11.0**2] * 2
    assert given.gain_tails.tolist() == [2 * 11.0] * 2


def test_products_over_positions_take_the_place_of_those_of_norms() -> None:
    given = evidence(HIDDEN, GRADIENT, ERROR, state_products=torch.ones(3, 3), step_products=2 * torch.ones(2, 3))
    assert given.sensitivities.tolist() == [[2.0, 0.5]] * 3
    assert given.influences.tolist() == [[4.0, 1.0]] * 2


def test_without_steps_there_is_no_influence_and_without_errors_no_image() -> None:
    assert evidence(HIDDEN, GRADIENT, ERROR).influences.shape == (0, 2)
    unknown = evidence(HIDDEN, GRADIENT, ERROR)
    object.__setattr__(unknown, "error_norms", NO_ERRORS)
    assert unknown.errors.tolist() == [0.0, 0.0, 0.0]
    assert unknown.sensitivities.shape == (3, 0)
    assert all(map(math.isnan, unknown.gain_tails.tolist()))


def test_growth_is_that_of_the_medians_and_of_the_images_own_tail() -> None:
    images = 41  # 95 % of 40 is 38
    early, late = torch.arange(1.0, images + 1), torch.arange(1.0, images + 1) ** 2
    norms = torch.stack([early, late, 3 * early]).double()
    given = evidence(norms, norms, norms[0], position_norms=2 * norms.flip(0))
    found = [(one.early, one.late, one.over_tokens) for one in given.growths]
    assert found == [(e, n, tokens) for tokens in (False, True) for e, n in ((0, 1), (0, 2), (1, 2))]
    first, _, last = given.growths[:3]
    assert (first.middle, first.tail) == (441 / 21, 39.0)  # h_1/h_0 = i, whose 39th of 41 is 39
    assert (last.middle, last.tail) == (pytest.approx(63 / 441), pytest.approx(3 / 3))
    assert given.growths[3].middle == pytest.approx(441 / 63)
    assert len(evidence(norms, norms, norms[0]).growths) == 3


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1.0), (0.1, 2.0), (0.5, 6.0), (0.95, 10.0), (1.0, 11.0)])
def test_a_percentile_is_a_number_of_the_row(share: float, expected: float) -> None:
    row = torch.arange(11.0, 0.0, -1.0)
    assert percentile(torch.stack([row, row * 2]), share).tolist() == [expected, 2 * expected]


def test_a_row_with_nan_or_without_numbers_has_no_percentile() -> None:
    found = percentile(torch.tensor([[1.0, math.nan, 2.0], [1.0, 2.0, 3.0]]), 0.0)
    assert math.isnan(found[0])
    assert found[1] == 1.0
    assert all(map(math.isnan, percentile(torch.zeros(2, 0), 0.5)))


def test_the_rival_is_the_most_accurate_one() -> None:
    rivals = (Rival("embedding", 0.4, 1, 2), Rival("blocks set back", 0.6, 3, 4), Rival("other", 0.5, 5, 6))
    profile = ReadoutProfile((0.3, 0.5, 0.9), rivals, 100, 50, (8, 4, 4))
    assert profile.rival.name == "blocks set back"
    assert profile.late_rise == pytest.approx(0.4)
    assert ReadoutProfile((0.3,), rivals, 100, 50).late_rise == 0.0
    assert ReadoutProfile((0.3, 0.5), rivals, 100, 50).late_rise == 0.0


@pytest.mark.parametrize(
    ("numbers", "expected"), [((), False), ((8, 9, 4), True), ((8, 4, 8), False), ((4, 9, 8), False)]
)
def test_a_read_out_narrows_where_the_last_has_fewer_numbers_than_the_first(numbers, expected) -> None:
    assert ReadoutProfile((0.1, 0.2, 0.3), (), 1, 1, numbers).narrows is expected
