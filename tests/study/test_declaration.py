"""A study file with a mistake is refused with its file, its key and what there is, before anything runs."""

from __future__ import annotations

import pytest

from creditscope.errors import BadFile, CreditscopeError
from creditscope.study.declaration import Study
from creditscope.study.expansion import expand
from creditscope.study.plan import plan
from creditscope.study.selection import only

LONG = str(list(range(1000)))
MISTAKES = {
    'nmae = "x"': ["a.toml, nmae", "Did you mean 'name'?", "Known: budget, controls"],
    "[fixed]\nepocs = 3": ["a.toml, [fixed] epocs", "Did you mean 'epochs'?", "Known: augment, batch_size"],
    '[fixed]\nepochs = "3"': ["a.toml, [fixed] epochs", "must be a whole number of at least 0, got '3'."],
    '[fixed]\nmethod = "dfaa"': ["a.toml, [fixed] method", "Did you mean 'dfa'?", "Known: bp,"],
    '[fixed]\n"network.dd" = 3': ["a.toml, [fixed] network.dd", "Did you mean 'd'?", "Known: d, depth"],
    '[grid]\nmethod = ["dfa"]\n"method.indx" = ["input"]': ["[grid] method.indx", "Did you mean 'index'?"],
    '[fixed]\n"network.d" = 3.5': ["a.toml, bp on mnist1d", "d of network 'resmlp' is 3.5"],
    '[fixed]\nmethod = "dfa"\n"method.index" = "x"': ["a.toml, dfa(index=x)", "index must be 'output' or 'input'"],
    'controls = ["forzen"]': ["a.toml, controls", "Did you mean 'frozen'?"],
    '[budget.smoke]\ncontrols = ["forzen"]': ["a.toml, [budget.smoke] controls", "Did you mean 'frozen'?"],
    "[budget.smoke]\nepoch = 3": ["a.toml, [budget.smoke] epoch", "Did you mean 'epochs'?"],
    "[[budget.smoke.include]]\nepoch = 3": ["a.toml, [budget.smoke.include] epoch", "Did you mean 'epochs'?"],
    "[budget.smoke.include]\nepochs = 3": [
        "a.toml, budget.smoke.include",
        "[[budget.smoke.include]] with two brackets",
    ],
    '[fixed]\nnetwork = "resmlp"\nnetwork.d = 3': ["a.toml is not valid TOML", '"network.d" = ...'],
    "[grid]\nseed = []": ["a.toml, [grid] seed", "no runs"],
    "[fixed]\nseed = -1": ["a.toml, [fixed] seed", "must be a whole number of at least 0, got -1."],
    '[fixed]\ncontrol = "x"': ["a.toml, [fixed] control", "none, frozen, shallow, ladder-0"],
    "[fixed]\nepochs = [1, 2]": ["a.toml, [fixed] epochs", "belongs in [grid]"],
    "[fixed]\nseed = 2020-01-01": ["a.toml, [fixed] seed", "expected a number, a string, true or false, got"],
    "[include]\nepochs = 3": ["a.toml, include", "[[include]] with two brackets"],
    "budget = 3": ["a.toml, budget", "expected a table, got 3"],
    "name = 3": ["a.toml, name", "expected a string, got 3"],
    'controls = "frozen"': ["a.toml, controls", "expected a list of strings, got 'frozen'"],
    "[fixed]\npenalty = 0.1\nmethod.penalty = 0.2": ["[fixed] penalty", "set twice"],
    "[grid]\nseed = [1]\n[[exclude]]\nseed = 1": ["a.toml has no runs"],
    "[grid]\nseed = [1]\n[[exclude]]\nseed = 2": ["a.toml, [exclude] seed = [2]", "no run matches"],
    f'controls = ["frozen"]\n[grid]\nseed = {LONG}\n"network.d" = {LONG}': ["2,000,000 runs", "seed (1,000)"],
}


@pytest.mark.parametrize(("text", "told"), MISTAKES.items(), ids=[repr(text[:40]) for text in MISTAKES])
def test_a_mistake_is_named_with_its_place(text, told):
    with pytest.raises(CreditscopeError) as error:
        plan(Study.parse(text, "a.toml"))
    for words in told:
        assert words in str(error.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadFile, match="nowhere.toml cannot be read"):
        Study.read(tmp_path / "nowhere.toml")


def test_options_may_be_quoted_dotted_or_a_table():
    quoted = Study.parse('[fixed]\nnetwork = "resmlp"\n"network.d" = 8\n"method.penalty" = 0.1')
    dotted = Study.parse("[fixed]\nnetwork.d = 8\nmethod.penalty = 0.1")
    table = Study.parse('[fixed.network]\nname = "resmlp"\nd = 8\n[fixed.method]\npenalty = 0.1')
    assert [s.key for s in expand(quoted)] == [s.key for s in expand(dotted)] == [s.key for s in expand(table)]
    assert expand(quoted)[0].penalty == 0.1


def test_an_unknown_budget_is_refused_with_those_there_are():
    with pytest.raises(CreditscopeError, match="no budget called 'laptp'. Did you mean 'laptop'?"):
        expand(Study.parse("[budget.laptop]\nepochs = 3"), "laptp")


def test_only_keeps_the_runs_that_read_so_and_says_what_there_is():
    runs = plan(Study.parse('controls = ["frozen"]\n[grid]\nmethod = ["bp", "dfa"]\nseed = [1, 2, 3]'))
    assert len(only(runs, {"method": ["dfa"]})) == 6
    assert len(only(runs, {"method": ["dfa"], "seed": ["1", "3"], "control": ["none"]})) == 2
    assert len(only(runs, {"network.depth": ["4"]})) == 12
    with pytest.raises(
        CreditscopeError, match="--only method=ep selects no run.\nThe values of method in this study: bp, dfa"
    ):
        only(runs, {"method": ["ep"]})
    with pytest.raises(
        CreditscopeError, match="--only mthod: There is no setting called 'mthod'. Did you mean 'method'"
    ):
        only(runs, {"mthod": ["ep"]})
