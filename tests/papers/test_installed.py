"""Papers are found by their entry point, and a command line names a paper, an experiment, or both."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from tests.papers.made import MADE

from creditscope.errors import CreditscopeError
from creditscope.papers import installed
from creditscope.papers.installed import GROUP, choose, installed_papers

OTHER = replace(MADE, name="other", experiments=(replace(MADE.experiments[1], name="depth"), MADE.experiments[0]))
BOTH = replace(MADE, name="speed", experiments=MADE.experiments)
ONE, TWO = {"made": MADE}, {"made": MADE, "other": OTHER}


def declared(monkeypatch, *values: str) -> None:
    entries = [EntryPoint(f"name{number}", value, GROUP) for number, value in enumerate(values)]
    monkeypatch.setattr(installed, "entry_points", lambda group: entries if group == GROUP else [])


def test_a_paper_is_found_by_its_entry_point(monkeypatch):
    declared(monkeypatch, "tests.papers.made:MADE")
    assert list(installed_papers()) == ["made"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("tests.papers.made:NONE", "The paper 'name0' (tests.papers.made:NONE) cannot be loaded: AttributeError"),
        ("tests.papers.nowhere:MADE", "cannot be loaded: ModuleNotFoundError"),
        ("tests.papers.made:run", "is a function, not a Paper.\nIts experiments are unknown."),
    ],
)
def test_an_entry_point_that_is_no_paper_is_named(monkeypatch, value, message):
    declared(monkeypatch, value)
    with pytest.raises(CreditscopeError) as caught:
        installed_papers()
    assert message in str(caught.value)


def test_two_papers_of_one_name_are_refused(monkeypatch):
    declared(monkeypatch, "tests.papers.made:MADE", "tests.papers.made:MADE")
    with pytest.raises(CreditscopeError, match="Two installed papers are called 'made'"):
        installed_papers()


@pytest.mark.parametrize(
    ("papers", "words", "paper", "names"),
    [
        (ONE, (None, None), "made", ["speed", "size"]),
        (ONE, ("made", None), "made", ["speed", "size"]),
        (ONE, ("size", None), "made", ["size"]),
        (ONE, ("made", "size"), "made", ["size"]),
        (TWO, ("other", None), "other", ["depth", "speed"]),
        (TWO, ("depth", None), "other", ["depth"]),
        (TWO, ("other", "speed"), "other", ["speed"]),
        ({"speed": BOTH}, ("speed", None), "speed", ["speed", "size"]),  # both: the paper
        ({"speed": BOTH}, ("speed", "speed"), "speed", ["speed"]),
    ],
)
def test_one_name_is_a_paper_or_the_experiment_of_the_only_paper_that_has_it(papers, words, paper, names):
    chosen, experiments = choose(papers, *words)
    assert (chosen.name, experiments) == (paper, names)


@pytest.mark.parametrize(
    ("papers", "words", "message"),
    [
        ({}, (None, None), "No paper is installed."),
        (TWO, (None, None), "Several papers are installed: made, other.\nNothing was run. Name one: creditscope"),
        (
            TWO,
            ("speed", None),
            "called 'speed': made, other.\nNothing was run. Name one: creditscope reproduce made speed",
        ),
        (TWO, ("sped", None), "There is no paper or experiment called 'sped'. Did you mean 'speed'?"),
        (ONE, ("sped", None), "There is no paper or experiment called 'sped'. Did you mean 'speed'?"),
        (ONE, ("mad", "speed"), "There is no paper called 'mad'. Did you mean 'made'?"),
        (ONE, ("made", "sped"), "There is no experiment called 'sped'. Did you mean 'speed'?"),
    ],
)
def test_a_name_that_is_unknown_or_ambiguous_is_refused(papers, words, message):
    with pytest.raises(CreditscopeError) as caught:
        choose(papers, *words)
    assert message in str(caught.value)
