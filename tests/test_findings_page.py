"""The page of findings: current, and its answers follow from records by the printed rules."""

from __future__ import annotations

import copy
import json

import pytest
from docs import measure_units
from docs.generate import findings

from creditscope.papers.claims import ClaimStatus

ROWS = json.loads(measure_units.RESULT.read_text(encoding="utf-8"))["rows"]


@pytest.mark.slow
def test_the_page_of_findings_is_current() -> None:
    found = findings.pairs()
    assert findings.PAGE.read_text(encoding="utf-8") == findings.page(found), "run make docs"


def test_a_rescaled_state_leaves_exact_numbers_alone_and_one_that_moved_refutes_it() -> None:
    assert len(ROWS) == len(measure_units.METHODS) * len(measure_units.SEEDS) * len(measure_units.EXPONENTS)
    assert findings.rescaling(ROWS).status is ClaimStatus.HOLDS
    for name, value in (("gamma", 0.5), ("accuracy", 0.1), ("sensitivity", 1e-3), ("gamma_clamped", 1.0)):
        moved = copy.deepcopy(ROWS)
        moved[-1][name] = value
        assert findings.rescaling(moved).status is ClaimStatus.FAILS, name
    assert findings.rescaling(ROWS[:-3]).status is ClaimStatus.UNDECIDED  # a seed is missing


def test_without_ten_settings_the_second_finding_is_undecided() -> None:
    answer = findings.without_retraining([])
    assert answer.status is ClaimStatus.UNDECIDED
    assert "at least 10 settings are needed" in answer.because
