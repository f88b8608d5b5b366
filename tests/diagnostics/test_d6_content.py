"""D6 measures the distance of deep alignment from chance, in standard deviations of chance."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnostics.credit_by_hand import aligned, credit, spread
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.evidence.credit import CreditEvidence, Null


@pytest.mark.parametrize(("z", "status"), [(2.999, "fires"), (3.001, "pass"), (13.0, "pass"), (-1.0, "fires")])
def test_d6_fires_exactly_below_three(z, status):
    found = find("D6", credit((0.9, z * 0.01, z * 0.01), sigma=0.01))
    assert found.value == pytest.approx(z)
    assert found.status == status
    assert found.per_layer == pytest.approx((90.0, z, z))


def test_credit_that_points_away_is_called_so():
    assert "anti-aligned" in find("D6", credit((0.0, -0.04, -0.04), sigma=0.01)).note
    assert "anti-aligned" not in find("D6", credit((0.0, 0.04, 0.04), sigma=0.01)).note


def test_the_note_sets_gamma_beside_chance():
    found = find("D6", credit((0.3, 0.158, 0.158), sigma=0.011))
    assert found.note == "deep Γ 0.158 against 0 ± 0.011 under fresh feedback (20 draws)"


@given(st.lists(st.tuples(*[st.floats(-0.1, 0.1)] * 3), min_size=2, max_size=20).filter(lambda d: len(set(d)) > 1))
def test_z_is_the_standard_score_of_the_deep_mean(draws):
    own = (0.5, 0.3, 0.2)
    deep = [fmean(draw[1:]) for draw in draws]
    given_evidence = evidence(credit=CreditEvidence(aligned(own), null=Null(tuple(draws), own, images=10)))
    found = find("D6", given_evidence)
    if stdev(deep) > 0:
        assert found.value == pytest.approx((0.25 - fmean(deep)) / stdev(deep))
    else:
        assert found.status == "undefined"


def test_exact_layers_are_left_out_of_the_deep_mean_but_not_of_the_profile():
    null = Null(((0.0, -0.01, 1.0), (0.0, 0.01, 1.0)), (0.1, 0.1, 1.0))
    given_evidence = evidence(credit=CreditEvidence(aligned((0.1, 0.1, 1.0)), frozenset({2}), null=null))
    found = find("D6", given_evidence)
    assert found.value == pytest.approx(0.1 / (0.01 * 2**0.5))
    assert math.isnan(found.per_layer[2])


def test_a_null_without_spread_is_undefined():
    assert find("D6", credit((0.1, 0.2, 0.3), sigma=0.0)).status == "undefined"


@pytest.mark.parametrize(
    ("given_evidence", "why"),
    [
        (evidence(), "no credit was given"),
        (credit((0.1, 0.1), sigma=None), "no null was drawn"),
        (credit((0.1,)), "no deep layers"),
    ],
)
def test_d6_is_skipped_without_its_null(given_evidence, why):
    found = find("D6", given_evidence)
    assert found.status == "skipped"
    assert why in found.note


def test_states_at_which_no_cosine_can_be_read_are_left_out_and_if_none_remains_it_is_gated():
    whole = find("D6", credit((0.3, 0.1, 0.1), untrusted=frozenset({0, 1, 2})))
    assert (whole.status, whole.reason, whole.value) == ("skipped", "gated", None)
    part = find("D6", credit((0.3, 0.1, 0.5), untrusted=frozenset({1})))
    assert part.value == pytest.approx(50.0)


def test_the_null_by_hand_has_the_spread_that_it_says():
    assert stdev(draw[0] for draw in spread((0.0,), 0.02).draws) == pytest.approx(0.02)
