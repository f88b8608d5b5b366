"""One counterexample fails a claim; it holds only when every case that is wanted is there and says so."""

from __future__ import annotations

import pytest
from tests.papers.made import MADE, archive, run

from creditscope.papers.claims import Case, ClaimStatus, all_of, any_of, claim, decide, each_run

TRUE, FALSE, OPEN = (Case(str(holds), holds, (f"key {holds}",)) for holds in (True, False, None))


@pytest.mark.parametrize(
    ("cases", "status"),
    [
        ([TRUE, TRUE], "holds"),
        ([TRUE, FALSE], "fails"),
        ([FALSE], "fails"),  # however many are missing
        ([FALSE, OPEN], "fails"),
        ([TRUE, OPEN], "undecided"),
        ([TRUE], "undecided"),
        ([], "undecided"),
    ],
)
def test_two_cases_are_wanted(cases, status):
    answer = decide(cases, 2)
    assert answer.status == status
    assert all(case.text in answer.because for case in cases)
    assert answer.keys == tuple(dict.fromkeys(key for case in cases for key in case.keys))


def test_without_any_case_nothing_holds_even_if_none_is_wanted():
    assert decide([], 0).status is ClaimStatus.UNDECIDED
    assert decide([], 0).because == "no run yet (0 of 0 cases available)"


def test_what_is_missing_is_counted():
    assert decide([TRUE], 3).because == "True (1 of 3 cases available)"


@pytest.mark.parametrize(
    ("answers", "all_true"),
    [([], True), ([True, True], True), ([True, None], None), ([None, False, True], False), ([None], None)],
)
def test_all_of_three_values(answers, all_true):
    assert all_of(answers) is all_true


@pytest.mark.parametrize(
    ("answers", "one_true"),
    [([], False), ([False, True], True), ([True, None], True), ([None, False], None), ([False, False], False)],
)
def test_any_of_three_values(answers, one_true):
    assert any_of(answers) is one_true


def test_every_run_is_a_case_named_by_its_group_and_seed():
    runs = archive(MADE, lambda spec: run(spec, 0.1 * spec.seed), "speed").select("speed", {"method": "bp"})
    cases = each_run(runs, lambda record: (f"{record.accuracy:.1f}", record.accuracy > 0.15), "bp")
    assert [(case.text, case.holds) for case in cases] == [
        ("bp, seed 1: 0.1", False),
        ("bp, seed 2: 0.2", True),
        ("bp, seed 3: 0.3", True),
    ]
    assert [case.keys for case in cases] == [(key,) for key in runs.records]
    assert each_run(runs, lambda record: ("", None))[0].text == "seed 1: "


def test_a_function_becomes_the_claim_that_it_answers():
    @claim("It is so", "speed", holds_if="always")
    def so(archive):
        return decide([TRUE], 1)

    assert (so.statement, so.experiment, so.holds_if) == ("It is so", "speed", "always")
    assert so.ask(archive(MADE)).status == "holds"
