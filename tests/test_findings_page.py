"""The page of findings: current, and its answers follow from records by the printed rules."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest
from docs import measure_units
from docs.generate import findings
from docs.generate.findings import Pair
from tests.papers.made import finding

from creditscope.papers.claims import ClaimStatus
from creditscope.runs.spec import RunSpec
from creditscope.study.tables import AuditRow
from creditscope.verdict import Measurement, Status

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


@pytest.mark.parametrize("name", ["gamma", "rho"])
def test_a_small_number_may_move_by_a_small_amount_only(name: str) -> None:
    """DFA's Γ of 0.0017 is not the same when it becomes 0.005, though both are close to 0."""
    moved = copy.deepcopy(ROWS)
    small = min((row for row in moved if row["exponent"] == 8), key=lambda row: abs(row[name]))
    assert abs(small[name]) < findings.UNMOVED
    small[name] *= 1.005
    assert findings.rescaling(moved).status is ClaimStatus.HOLDS
    small[name] *= 3
    assert findings.rescaling(moved).status is ClaimStatus.FAILS


# --- depth without retraining: made-up rows ---

P, F, U = Status.PASS, Status.FIRES, Status.UNDECIDED


def pair(d3: float, d10: float, answers: tuple[Status, Status] = (P, P), half: float = 0.5, **spec: Any) -> Pair:
    """A setting with both numbers in points, and an interval of D3 that reaches half a point to either side."""
    entries = {"D3": (d3, answers[0]), "D10": (d10, answers[1])}
    found = {
        code: dataclasses.replace(
            finding(code, value),
            status=status,
            measurement=Measurement(value, interval=(value - half, value + half)),
        )
        for code, (value, status) in entries.items()
    }
    return Pair("made", AuditRow(label="a method", spec=RunSpec(**spec), seeds=(), findings=found))


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((P, P), "agrees"),
        ((F, F), "agrees"),
        ((P, F), "differs"),
        ((F, P), "differs"),
        ((P, U), "undecided"),
        ((U, F), "undecided"),
        ((U, U), "undecided"),
    ],
)
def test_two_verdicts_agree_differ_or_leave_it_open(answers: tuple[Status, Status], said: str) -> None:
    assert pair(5, 5, answers).answer == said


def test_pairs_that_d3_tells_apart_are_ordered_alike_or_not() -> None:
    low, high = pair(1, 2), pair(5, 9)
    assert findings.ordered([low, high]) == findings.ordered([high, low]) == (1, 1)
    assert findings.ordered([pair(1, 9), pair(5, 2)]) == findings.ordered([pair(5, 2), pair(1, 9)]) == (0, 1)
    assert findings.ordered([pair(1, 2), pair(1.9, 9)]) == (0, 0)  # the intervals overlap
    assert findings.ordered([pair(1, 2), pair(5, 9, epochs=7)]) == (0, 0)  # another setting
    assert findings.ordered([low, high, pair(9, 1)]) == (1, 3)


def test_the_second_finding_holds_if_d10_decides_and_orders_as_d3_does() -> None:
    alike = [pair(2.0 * index, 3.0 * index) for index in range(10)]
    assert findings.without_retraining(alike).status is ClaimStatus.HOLDS
    assert findings.without_retraining(alike[:9]).status is ClaimStatus.UNDECIDED
    several = [pair(2.0 * index, 3.0 * index, (U, P) if index < 5 else (F, F)) for index in range(10)]
    assert findings.without_retraining(several).status is ClaimStatus.HOLDS  # undecided does not count against it


def test_the_second_finding_fails_by_one_opposite_verdict_or_by_the_order() -> None:
    alike = [pair(2.0 * index, 3.0 * index) for index in range(10)]
    for answers in ((P, F), (F, P)):
        opposite = findings.without_retraining([pair(0, 0, answers), *alike[1:]])
        assert opposite.status is ClaimStatus.FAILS
        assert "oppositely on 1," in opposite.because
    reversed_order = [pair(2.0 * index, -3.0 * index) for index in range(10)]
    assert findings.without_retraining(reversed_order).status is ClaimStatus.FAILS
    apart = [pair(0.1 * index, index, half=9) for index in range(10)]
    assert findings.without_retraining(apart).status is ClaimStatus.FAILS  # no pair is told apart: nothing is ordered


def test_the_order_must_be_that_of_nine_pairs_in_ten() -> None:
    """Of 45 pairs, 41 alike are enough, and 40 are not."""
    alike = [pair(2.0 * index, 3.0 * index) for index in range(10)]
    for place, wrong in ((4, 4), (5, 5)):
        swapped = [*alike[1:], pair(0, 3.0 * place + 1)]  # the lowest by D3 is above `place` others by D10
        assert findings.ordered(swapped) == (45 - wrong, 45)
        status = ClaimStatus.HOLDS if wrong == 4 else ClaimStatus.FAILS
        assert findings.without_retraining(swapped).status is status


def test_without_ten_settings_the_second_finding_is_undecided() -> None:
    answer = findings.without_retraining([])
    assert answer.status is ClaimStatus.UNDECIDED
    assert "at least 10 settings are needed" in answer.because
