"""What every registered method promises; new files in creditscope/methods/ are found by themselves.

The clauses are those of `creditscope check-rule`.
"""

from __future__ import annotations

import pytest

from creditscope.conformance.check import CLAUSES
from creditscope.conformance.clause import Clause, Outcome
from creditscope.conformance.subject import CheckedRule, home, supported
from creditscope.methods import methods
from creditscope.networks import networks

PAIRS = [(name, on) for name in methods for on in networks if supported(methods[name], on)]
AT_HOME = [(name, home(methods[name])) for name in methods]
# Away from home. The clause on precision keeps the default of twenty: after 6 steps the credit of predictive coding at
# h_0 is 1.6e-6 of the state, and rounding in float32 1e-7; after 10 one sample of EP still swings and magnifies it.
RELAXED = {"ep": {"steps": 6}, "predictive_coding": {"steps": 6}}
ONE_OF_EACH_KIND = ("small_cnn", "vit_mini")
# Options under which a rule is another one, with a name of its own.
FORMS: dict[str, tuple[str, dict[str, object]]] = {
    "credit at the block's input": ("dfa", {"index": "input"}),
    "signs alone": ("sign_symmetry", {"magnitudes": "uniform"}),
    "redrawn magnitudes": ("sign_symmetry", {"magnitudes": "redrawn"}),
    "summed predictions": ("local_loss", {"prediction": "sum"}),
    "sixteen draws": ("forward_gradient", {"draws": 16}),
    "fixed predictions": ("predictive_coding", {"prediction": "fixed"}),
    "multipliers": ("predictive_coding", {"multipliers": True}),
}
DEAR = ("sixteen draws", "multipliers")


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
    result = clause.result(CheckedRule(methods[name](**options), on))
    assert result.outcome is not Outcome.FAILS, result.detail


def forms() -> list[object]:
    """Every clause on every named form at home."""
    return [
        pytest.param(clause, form, id=f"{clause.name}-{form}", marks=[pytest.mark.slow] if form in DEAR else [])
        for clause in CLAUSES
        for form in FORMS
    ]


@pytest.mark.parametrize(("clause", "form"), forms())
def test_every_named_form_of_a_method_keeps_every_clause(clause: Clause, form: str) -> None:
    name, options = FORMS[form]
    result = clause.result(CheckedRule(methods[name](**options), home(methods[name])))
    assert result.outcome is not Outcome.FAILS, result.detail


def test_every_method_with_credit_works_on_the_primary_network_and_every_network_has_a_method() -> None:
    for name, entry in methods.items():
        assert not entry.at_states or (name, "resmlp") in PAIRS
    assert {on for _, on in PAIRS} == set(networks)
