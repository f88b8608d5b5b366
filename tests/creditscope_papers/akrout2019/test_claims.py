"""The claims name the learning rates and the decay of the runs that answer them."""

from __future__ import annotations

import re

import pytest
from tests.papers import made
from tests.papers.made import run

from creditscope_papers.akrout2019 import PAPER, claims
from creditscope_papers.akrout2019.rows import BP, FA, MIRRORS, PLAIN


@pytest.mark.parametrize(
    ("claim", "wheres"),
    [
        (claims.mirrors_beat_fa, (MIRRORS, FA)),
        (claims.kolen_pollack_beats_fa, (PLAIN, FA)),
        (claims.as_accurate_as_bp, (PLAIN, BP)),
    ],
)
def test_a_claim_names_the_learning_rate_of_either_side(claim, wheres):
    archive = made.archive(PAPER)
    rates = [
        {spec.learning_rate for spec in archive.select(claims.EXPERIMENT, where).specs.values()} for where in wheres
    ]
    assert [{float(rate)} for rate in re.findall(r"0\.\d+", claim.statement)] == rates
    assert ("no decay" in claim.statement) == (PLAIN in wheres)


@pytest.mark.parametrize(("accuracy", "status"), [(0.97, "holds"), (0.955, "holds"), (0.945, "fails")])
def test_kolen_pollack_may_lie_two_points_below_backprop(accuracy, status):
    def make(spec):
        return run(spec, accuracy if spec.method == "kolen_pollack" else 0.97)

    assert claims.as_accurate_as_bp.ask(made.archive(PAPER, make, claims.EXPERIMENT)).status == status
