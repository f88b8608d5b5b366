"""D7 fires where float64 gives another gradient, and tells rounding, clamp and content apart."""

from __future__ import annotations

import math

import pytest
from tests.diagnostics.credit_by_hand import aligned, credit
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.evidence.credit import Precision
from creditscope.verdict import Missing, Reason


@pytest.mark.parametrize(("worst", "status"), [(0.9901, "pass"), (0.9899, "fires"), (0.0, "fires"), (-1.0, "fires")])
def test_d7_fires_exactly_below_099_at_any_layer(worst, status):
    found = find("D7", credit((0.1, 0.1, 0.1), precision=Precision((1.0, worst, 1.0), "float16")))
    assert (found.value, found.status) == (worst, status)
    assert found.per_layer == (1.0, worst, 1.0)


def test_a_layer_without_a_gradient_never_passes():
    found = find("D7", credit((0.1, 0.1), precision=Precision((1.0, math.nan), "float32")))
    assert found.status == "undefined"


def test_clamp_rounding_and_content_stand_in_one_line():
    found = find(
        "D7",
        credit(
            (0.4, 0.2, 0.2),
            sigma=0.01,
            alignment=aligned((0.4, 0.2, 0.2), (0.4, 0.05, 0.03)),
            precision=Precision((1 - 2e-14,) * 3, "float32"),
        ),
    )
    assert found.status == "pass"
    assert found.note == "float32 and float64 agree to 2e-14; the eps clamp changes deep Γ by -0.16; z = 20"


@pytest.mark.parametrize(
    ("given_evidence", "why"),
    [
        (evidence(), "no credit was given"),
        (credit((0.1,)), "not computed in float64"),
        (credit((0.1,), precision=Missing(Reason.NOT_POSSIBLE, "a layer refuses")), "a layer refuses"),
    ],
)
def test_d7_is_skipped_without_float64(given_evidence, why):
    found = find("D7", given_evidence)
    assert found.status == "skipped"
    assert why in found.note
