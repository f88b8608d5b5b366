"""Findings of several seeds become one only where all of them say the same."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.diagnostics.depth import from_accuracies, from_answers
from creditscope.diagnostics.seeds import medians, over_seeds
from creditscope.verdict import Finding, Limit, Measurement, Reason, Status


def seed(
    status: Status, value: float | None = 1.0, layers: tuple[float, ...] = (), cause: str = "", **rest: object
) -> Finding:
    measured = None if value is None else Measurement(value, layers, cause=cause, axis="block")
    return Finding("D1", "", status, measured, Limit(50.0, "above", ""), rest.pop("note", ""), "", **rest)


PASS, FIRES = seed(Status.PASS, 1.0, (1.0, 2.0)), seed(Status.FIRES, 99.0, (9.0, 99.0), "collapsed")


def test_seeds_that_agree_keep_their_status_and_cause_and_show_medians():
    many = over_seeds([seed(Status.FIRES, value, (value, 1.0), "collapsed") for value in (60.0, 100.0, 70.0)])
    assert (many.status, many.value, many.per_layer, many.cause) == (Status.FIRES, 70.0, (70.0, 1.0), "collapsed")
    assert many.note == "fires on 3 of 3 seeds"
    assert many.measurement is not None
    assert many.measurement.axis == "block"
    assert over_seeds([PASS]).status is Status.PASS


@pytest.mark.parametrize(
    "others",
    [[PASS, FIRES], [FIRES, seed(Status.FIRES, 99.0, (), "fitted")], [PASS, None], [FIRES, None], [None, PASS]],
)
def test_seeds_that_differ_or_are_missing_leave_it_undecided_without_a_cause(others):
    joined = over_seeds(others)
    assert (joined.status, joined.reason, joined.cause) == (Status.UNDECIDED, None, "")
    fires = sum(one is not None and one.status is Status.FIRES for one in others)
    assert joined.note == f"fires on {fires} of 2 seeds"


def test_causes_count_only_where_the_diagnostic_fires():
    assert over_seeds([seed(Status.PASS, cause="a"), seed(Status.PASS, cause="b")]).status is Status.PASS


def test_numbers_without_a_limit_are_a_median_and_not_a_count():
    measured = [seed(Status.MEASURED, value) for value in (3.0, 1.0)]
    assert over_seeds(measured).note == "median of 2 seeds"
    assert over_seeds([measured[0], PASS]).note == "fires on 0 of 2 seeds"


def test_what_no_seed_measured_keeps_its_reason_and_its_words():
    skipped = seed(Status.SKIPPED, None, reason=Reason.NO_CONTROL, note="no control")
    joined = over_seeds([skipped, skipped])
    assert (joined.status, joined.reason, joined.measurement) == (Status.SKIPPED, Reason.NO_CONTROL, None)
    assert joined.note == "no control"
    wordless = seed(Status.SKIPPED, None, reason=Reason.NO_CONTROL)
    assert over_seeds([wordless, wordless]).note == "fires on 0 of 2 seeds"
    assert over_seeds([skipped, PASS]).value == 1.0


def test_what_could_not_be_judged_says_why_although_a_number_was_measured():
    blind = seed(Status.SKIPPED, 0.0, cause="other network", reason=Reason.NOT_POSSIBLE, note="it reads a copy")
    assert over_seeds([blind, blind]).note == "it reads a copy"
    assert over_seeds([blind, PASS]).note == "fires on 0 of 2 seeds"


def test_one_seed_without_a_number_leaves_no_median_and_other_depths_no_layers():
    broken = over_seeds([seed(Status.UNDEFINED, math.nan, (math.nan, 1.0)), seed(Status.UNDEFINED, 2.0, (2.0, 3.0))])
    assert math.isnan(broken.value or 0.0)
    assert math.isnan(broken.per_layer[0])
    assert math.isnan(over_seeds([seed(Status.UNDEFINED, value) for value in (1.0, math.nan, 2.0)]).value or 0.0)
    assert math.isnan(over_seeds([seed(Status.UNDEFINED, value) for value in (math.nan, 1.0, 2.0)]).value or 0.0)
    assert broken.per_layer[1] == 2.0
    assert over_seeds([PASS, seed(Status.PASS, 1.0, (1.0,))]).per_layer == ()


def test_answers_of_several_seeds_are_their_accuracies():
    trained, control = np.eye(2, 8, dtype=bool) | (np.arange(8) < 6), np.eye(2, 8, dtype=bool)
    found = from_answers(trained, control)
    assert found.value == pytest.approx(100 * (trained.mean() - control.mean()))
    assert found.per_seed == pytest.approx((62.5, 62.5))
    assert "8 test images" in found.note


def test_accuracies_and_answers_alone_count_as_those_of_named_seeds():
    first, second = (0.50, 0.56, 0.59, 0.61), (0.41, 0.44, 0.52, 0.53)
    assert from_accuracies(first, second, 500).note.startswith("paired t-interval over 4 seeds")
    tables = [np.arange(500) < np.array(shares)[:, None] * 500 for shares in (first, second)]
    assert from_answers(*tables).note.startswith("paired t-interval over 4 seeds")


def test_growth_is_named_by_the_states_around_its_block_from_two_states_on():
    two = evidence(((1.0,), (3.0,)), ((1.0,), (1.0,)))
    assert find("D1", two).note == "largest across block 0, h_0 to h_1"
    assert find("D1:stream", two).value == pytest.approx(3.0)
    four = evidence(((1.0,), (2.0,), (8.0,), (8.0,)), ((1.0,),) * 4)
    assert find("D1", four).note == "largest across block 1, h_1 to h_2"
    assert find("D1:april", evidence(((2.0,), (1.0,), (6.0,)), ((1.0,),) * 3)).value == 3.0


def test_medians_are_taken_layer_by_layer_and_nan_where_one_seed_has_no_number():
    measured = [Measurement(value, (value, -value)) for value in (3.0, 1.0, 2.0)]
    assert medians(measured) == (2.0, (2.0, -2.0))
    assert medians([*measured, Measurement(4.0, (1.0,))]) == (2.5, ())
    value, (first, second) = medians([*measured, Measurement(4.0, (math.nan, 0.0))])
    assert (value, second) == (2.5, -1.5)
    assert math.isnan(first)
