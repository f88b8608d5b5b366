"""Progress: a listener hears every step in order, and without one nothing happens."""

from __future__ import annotations

import sys

import pytest
from tests.foreign_models import CLASSES, FEATURES, batches

from creditscope import audit
from creditscope.networks.build import build
from creditscope.progress import Step, listening, step, steps
from creditscope.study.display.auditing import watching_audit


def test_a_listener_hears_every_item_and_the_end():
    heard: list[Step] = []
    with listening(heard.append):
        assert list(steps("counting", [5, 6])) == [5, 6]
        assert list(steps("streaming", iter([7]))) == [7]
    assert heard == [
        Step("counting", 0, 2),
        Step("counting", 1, 2),
        Step("counting", 2, 2),
        Step("streaming", 0),
        Step("streaming", 1),
    ]


def test_nobody_is_told_outside_of_the_context_or_after_an_error():
    heard: list[Step] = []
    with pytest.raises(ValueError, match="inside"), listening(heard.append):
        raise ValueError("inside")
    step("unheard")
    assert list(steps("unheard", range(2))) == [0, 1]
    assert heard == []


def test_an_inner_listener_hears_instead_of_the_outer_one():
    outer: list[Step] = []
    inner: list[Step] = []
    with listening(outer.append):
        with listening(inner.append):
            step("one")
        step("two")
    assert (inner, outer) == ([Step("one")], [Step("two")])


def test_an_audit_with_credit_tells_its_steps_and_its_numbers_do_not_depend_on_who_listens(capsys):
    network, given = build("resmlp", FEATURES, CLASSES, 0, d=8, depth=2), batches(2, 32)
    heard: list[Step] = []

    def credit(batch):
        return [state.detach() for state in network.states(batch.inputs)]

    with listening(heard.append):
        told = audit(network, given, credit=credit)
    quiet = audit(network, given, credit=credit)
    names = list(dict.fromkeys(each.name for each in heard))
    assert names[0] == "measuring batches"
    assert {"comparing Γ with chance", "moving states in proportion", "looking for label leaks"} <= set(names)
    assert all(each.total is None or each.done <= each.total for each in heard)
    assert told.measures == quiet.measures
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("terminal", [True, False])
def test_the_steps_are_shown_on_standard_error_and_only_on_a_terminal(terminal, monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    with watching_audit("loading"):
        list(steps("moving [states]", range(3)))
    out, err = capsys.readouterr()
    assert out == ""
    assert ("moving [states]" in err) is terminal
