"""check_rule: planted mistakes are found by name, and misuse is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from tests.conformance.planted_rules import PLANTED, SPOILT, UNDECLARED

from creditscope import check_rule, cli
from creditscope.conformance.check import CLAUSES, Conformance
from creditscope.conformance.clause import NotChecked, Outcome, Remark, clause, note
from creditscope.conformance.subject import CheckedRule
from creditscope.conformance.table import conformance_table
from creditscope.errors import InvalidInput, UnknownName
from creditscope.methods import methods
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.rule import CreditRule

EVERY = [*PLANTED.items(), *SPOILT.items()]


def test_every_clause_is_broken_by_some_rule() -> None:
    assert {name for _, clauses in EVERY for name in clauses} | {"facts"} == {clause.name for clause in CLAUSES}


@pytest.mark.slow
@pytest.mark.parametrize("rule", PLANTED, ids=lambda rule: rule.__name__)
def test_a_planted_mistake_is_found_by_the_clause_that_names_it(rule: type[CreditRule]) -> None:
    checked = check_rule(rule)
    assert not checked.conforms
    assert PLANTED[rule] <= set(checked.failing)


@pytest.mark.parametrize(("rule", "clauses"), EVERY, ids=[rule.__name__ for rule, _ in EVERY])
def test_the_clause_itself_finds_it(rule: type[CreditRule], clauses: set[str]) -> None:
    by_name = {clause.name: clause for clause in CLAUSES}
    for name in clauses:
        result = by_name[name].result(CheckedRule(rule()))
        assert result.outcome is Outcome.FAILS
        assert result.detail


@pytest.mark.slow
def test_every_rule_of_ours_that_was_spoilt_is_sound_without_its_mistake() -> None:
    parents = {rule.__mro__[1] for rule in PLANTED}
    assert all(check_rule(parent).conforms for parent in parents)  # type: ignore[type-abstract]


def test_a_result_says_what_the_clause_states_and_how_long_it_took() -> None:
    checked = check_rule("dfa")
    assert [result.clause for result in checked.results] == [clause.name for clause in CLAUSES]
    assert len({clause.name for clause in CLAUSES}) == len(CLAUSES)
    assert all(result.states.endswith(".") and result.seconds >= 0 for result in checked.results)
    assert json.loads(checked.to_json())["results"][0]["outcome"] == "holds"


def test_checking_leaves_the_random_state_of_the_caller_alone() -> None:
    before = torch.get_rng_state()
    check_rule("dfa")
    assert torch.equal(torch.get_rng_state(), before)


# --- outcomes ---------------------------------------------------------------------------------------------------------


def test_a_fault_outweighs_notes_and_reasons_not_to_go_on() -> None:
    @clause("x", states="X.")
    def both(subject: CheckedRule):
        yield note("measured")
        yield Remark("wrong")
        raise NotChecked("nothing left")

    result = both.result(CheckedRule(DirectFeedback()))
    assert (result.outcome, result.detail) == (Outcome.FAILS, "wrong")


def test_what_a_rule_raises_is_its_fault_and_a_reason_is_none() -> None:
    @clause("x", states="X.")
    def raises(subject: CheckedRule):
        yield from ()
        raise ZeroDivisionError("by 0\nand more")

    @clause("y", states="Y.")
    def declines(subject: CheckedRule):
        yield from ()
        raise NotChecked("no states")

    subject = CheckedRule(DirectFeedback())
    assert raises.result(subject).detail == "ZeroDivisionError: by 0"
    assert raises.result(subject).outcome is Outcome.FAILS
    assert declines.result(subject).outcome is Outcome.NOT_CHECKED


def test_many_faults_are_counted_not_listed() -> None:
    @clause("x", states="X.")
    def many(subject: CheckedRule):
        yield from (Remark(str(number)) for number in range(5))

    assert many.result(CheckedRule(DirectFeedback())).detail == "0; 1; 2; and 2 more"


def test_the_table_has_a_row_for_every_clause_and_ends_with_the_verdict() -> None:
    checked = check_rule("dfa")
    page = conformance_table(checked, 80).splitlines()
    assert all(any(line.startswith(clause.name) for line in page) for clause in CLAUSES)
    assert max(map(len, page)) <= 80
    assert page[-1].startswith("dfa conforms (")
    fails = dataclasses.replace(checked.results[0], outcome=Outcome.FAILS, detail="no facts")
    page = conformance_table(Conformance("mine", "resmlp", (fails,)))
    assert page.endswith("mine does not conform: facts (1 fail).")
    assert "-> no facts" in page


@pytest.mark.parametrize(("rule", "unknown"), UNDECLARED.items(), ids=[rule.__name__ for rule in UNDECLARED])
def test_what_a_missing_declaration_leaves_unknown_is_said_with_the_verdict(
    rule: type[CreditRule], unknown: str
) -> None:
    checked = check_rule(rule)
    assert checked.conforms
    assert not checked.complete
    assert checked.unknown == (unknown,)
    assert f"{rule.__name__} conforms, but {unknown} (" in conformance_table(checked, 400).splitlines()[-1]
    assert max(map(len, conformance_table(checked, 80).splitlines())) <= 80
    assert json.loads(checked.to_json())["complete"] is False


@pytest.mark.parametrize("name", ["bp", "dfa", "fa", "predictive_coding"])
def test_nothing_stays_unknown_of_a_rule_that_declares_it_or_has_no_feedback(name: str) -> None:
    (identity,) = [clause.result(CheckedRule(methods[name]())) for clause in CLAUSES if clause.name == "identity"]
    (decay,) = [clause.result(CheckedRule(methods[name]())) for clause in CLAUSES if clause.name == "decay"]
    assert (identity.unknown, decay.unknown) == ("", "")


# --- a rule of somebody else ------------------------------------------------------------------------------------------


class Bare(CreditRule):
    """Neither a dataclass nor registered, and its credit fails."""

    def feedback(self, network, example, generator):
        raise RuntimeError("not written yet")

    def credit(self, network, feedback, batch, scope=None):
        raise RuntimeError("not written yet")


def test_a_rule_without_facts_fails_in_words_and_ends_nothing() -> None:
    checked = check_rule(Bare)
    details = {result.clause: result.detail for result in checked.results}
    assert "no facts: register the class with @method" in details["facts"]
    assert "no dataclass" in details["value"]
    assert details["pure"] == "RuntimeError: not written yet"
    assert "resmlp ends in RuntimeError" in details["networks"]


@dataclasses.dataclass(frozen=True)
class Derived(DirectFeedback):
    """Inherits the facts of another rule."""


def test_inherited_facts_are_not_those_of_the_rule() -> None:
    (result,) = [clause.result(CheckedRule(Derived())) for clause in CLAUSES if clause.name == "facts"]
    assert result.detail.startswith("the facts are those of 'dfa', which it is derived from")


# --- misuse -----------------------------------------------------------------------------------------------------------


def test_what_is_no_rule_is_refused() -> None:
    for wrong in (3, dict, torch.nn.Linear(2, 2)):
        with pytest.raises(InvalidInput, match="is not a credit rule") as found:
            check_rule(wrong)  # type: ignore[arg-type]
        assert "derived from creditscope.methods.rule.CreditRule" in str(found.value)
    with pytest.raises(UnknownName, match="Did you mean 'dfa'"):
        check_rule("dfaa")


def test_a_class_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(InvalidInput, match="CreditRule cannot be made: .*abstract"):
        check_rule(CreditRule)


def test_a_network_that_the_rule_leaves_out_is_refused() -> None:
    with pytest.raises(InvalidInput, match="does not support 'resmlp': it declares mlp"):
        check_rule("pepita", network="resmlp")
    with pytest.raises(UnknownName, match="There is no network called 'resnlp'"):
        check_rule("dfa", network="resnlp")


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_table_or_json_and_exits_with_0(capsys) -> None:
    assert cli.run(["check-rule", "dfa", "--network", "mlp", "--option", "normalisation=none"]) == 0
    assert "dfa on mlp" in capsys.readouterr().out
    assert cli.run(["check-rule", "dfa", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["conforms"], found["complete"]) == (True, True)


def test_the_command_takes_a_class_of_your_own_and_exits_with_1_where_a_clause_fails(
    capsys, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_rules_of_this_test.py").write_text(
        "from dataclasses import dataclass\n"
        "from creditscope.methods.dfa import DirectFeedback\n"
        "@dataclass(frozen=True)\n"
        "class Mine(DirectFeedback):\n"
        '    """Inherits its facts."""\n'
    )
    assert cli.run(["check-rule", "my_rules_of_this_test:Mine"]) == 1
    assert "does not conform: facts" in capsys.readouterr().out


@pytest.mark.parametrize(
    "wrong",
    [["dfaa"], ["dfa", "--network", "resnlp"], ["json:loads"], ["nowhere:Mine"], ["dfa", "--option", "normalise=none"]],
    ids=lambda arguments: " ".join(arguments),
)
def test_a_mistake_of_the_user_exits_with_2(capsys, wrong: list[str]) -> None:
    assert cli.run(["check-rule", *wrong]) == 2
    assert capsys.readouterr().err.startswith("Error: ")
