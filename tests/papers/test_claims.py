"""One counterexample fails a claim; it holds only when every case that is wanted is there and says so."""

from __future__ import annotations

import pytest

from creditscope.papers.claims import Case, ClaimStatus, all_of, decide

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
