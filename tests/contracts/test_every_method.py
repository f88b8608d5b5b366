"""What every registered method promises; new files in creditscope/methods/ are found by themselves.

The clauses are those of `creditscope check-rule`.
"""

from __future__ import annotations

import pytest

from creditscope.conformance.check import CLAUSES
from creditscope.conformance.clause import Clause, Outcome
from creditscope.conformance.subject import Subject, home, supported
from creditscope.methods import methods
from creditscope.networks import networks

PAIRS = [(name, on) for name in methods for on in networks if supported(methods[name], on)]
AT_HOME = [(name, home(methods[name])) for name in methods]
# Away from home. The clause on precision keeps the default of twenty: after 6 steps the credit of predictive coding at
# h_0 is 1.6e-6 of the state, and rounding in float32 1e-7; after 10 one sample of EP still swings and magnifies it.
RELAXED = {"ep": {"steps": 6}, "predictive_coding": {"steps": 6}}
ONE_OF_EACH_KIND = ("small_cnn", "vit_mini")


def cases() -> list[object]:
    """Every clause on every method: at home, on a network of each kind, and on all others among the slow tests."""
    chosen: list[object] = []
    for clause in CLAUSES:
        for name, on in AT_HOME if clause.name in ("facts", "value", "networks") else PAIRS:
            fast = (name, on) in AT_HOME or (on in ONE_OF_EACH_KIND and name not in RELAXED)
            marks = [] if fast else [pytest.mark.slow]
            chosen.append(pytest.param(clause, name, on, id=f"{clause.name}-{name}-{on}", marks=marks))
    return chosen


@pytest.mark.parametrize(("clause", "name", "on"), cases())
def test_every_method_keeps_every_clause(clause: Clause, name: str, on: str) -> None:
    options = {} if (name, on) in AT_HOME or clause.name == "precision" else RELAXED.get(name, {})
    result = clause.result(Subject(methods[name](**options), on))
    assert result.outcome is not Outcome.FAILS, result.detail


def test_every_method_with_credit_works_on_the_primary_network_and_every_network_has_a_method() -> None:
    for name, entry in methods.items():
        assert not entry.at_states or (name, "resmlp") in PAIRS
    assert {on for _, on in PAIRS} == set(networks)
