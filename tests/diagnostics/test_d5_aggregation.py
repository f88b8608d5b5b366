"""D5 asks what survives of the mean alignment without its best layer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.diagnostics.credit_by_hand import credit, spread
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.evidence.credit import LabelDependence
from creditscope.verdict import Missing, Reason

PUBLISHED_DFA = (0.42, 0.006, -0.015, -0.004, -0.004)
FA = (0.31, 0.40, 0.16, 0.12, 1.0)
PENALISED_DFA = (0.32, 0.17, 0.15, 0.165, 0.166)


@pytest.mark.parametrize(
    ("gammas", "exact", "value", "status"),
    [
        (PUBLISHED_DFA, (), -0.05, "fires"),
        (FA, (4,), 0.79, "pass"),
        (PENALISED_DFA, (), 0.84, "pass"),
        ((1.0,) * 5, (), 1.0, "pass"),
    ],
)
def test_d5_fires_on_the_published_dfa_profile_and_is_silent_on_the_others(gammas, exact, value, status):
    found = find("D5", credit(gammas, exact_layers=frozenset(exact)))
    assert found.value == pytest.approx(value, abs=0.01)
    assert found.status == status


@pytest.mark.parametrize(("rest", "status"), [(0.2001, "pass"), (0.1999, "fires")])
def test_d5_fires_exactly_below_a_third(rest, status):
    """Of (7x, x, x) a third survives: x / ((7x + 2x)/3) = 1/3."""
    found = find("D5", credit((1.4, rest, rest)))
    assert found.value == pytest.approx(3 * rest / (1.4 + 2 * rest))
    assert found.status == status


@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=8), st.floats(1e-6, 1.0))
def test_r_lies_between_zero_and_one_for_positive_profiles_and_knows_no_scale(gammas, scale):
    one = find("D5", credit(gammas, sigma=None)).value
    assert 0 <= one <= 1 + 1e-9
    assert find("D5", credit([scale * g for g in gammas], sigma=None)).value == pytest.approx(one)
    rest = sorted(gammas)[:-1]
    assert one == pytest.approx((sum(rest) / len(rest)) / (sum(gammas) / len(gammas)))


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (evidence(), "no credit was given"),
        (
            evidence(credit=Missing(Reason.NOT_AVAILABLE, "not available: B is lost")),
            "not available: B is lost",
        ),
        (credit((1.0,) * 4, exact_layers=frozenset(range(4))), "by construction at every layer"),
        (credit((0.5, 0.5, 1.0), exact_layers=frozenset({2})), "needs 3 layers whose credit is not exact, got 2"),
        (credit((0.5, -0.5, -0.5)), "so no layer can carry it"),
        (credit((0.02, 0.01, 0.01), sigma=0.02), "within its null (z = 0.7)"),
    ],
)
def test_d5_is_skipped_where_there_is_nothing_to_aggregate(evidence, why):
    found = find("D5", evidence)
    assert (found.status, found.measurement) == ("skipped", None)
    assert why in found.note


def test_an_undefined_layer_leaves_it_undefined():
    assert find("D5", credit((0.5, math.nan, 0.5), sigma=None)).status == "undefined"


def test_states_at_which_no_cosine_can_be_read_gate_it_if_none_remains():
    found = find("D5", credit(PUBLISHED_DFA, untrusted=frozenset(range(len(PUBLISHED_DFA)))))
    assert (found.status, found.reason, found.margin) == ("skipped", "gated", None)


def test_without_fresh_feedback_credit_that_does_not_depend_on_the_labels_has_no_profile():
    gammas, chance = (0.02, 0.01, 0.01), spread((0.02, 0.01, 0.01), 0.02)
    labels = LabelDependence(chance.draws, chance.own)
    assert "within its null (z = 0.7)" in find("D5", credit(gammas, sigma=None, label_dependence=labels)).note
    assert find("D5", credit(gammas, sigma=None)).status == "pass"
