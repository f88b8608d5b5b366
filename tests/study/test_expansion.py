"""A study is the product of its axes, plus what is included, minus what is excluded, with its controls, each once."""

from __future__ import annotations

import inspect
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.records import labels
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.expansion import expand
from creditscope.study.plan import _sources, plan


@given(
    methods=st.lists(st.sampled_from(["bp", "dfa", "fa"]), unique=True, min_size=1),
    seeds=st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=4),
    widths=st.lists(st.integers(1, 99), unique=True, min_size=1, max_size=3),
)
def test_the_grid_is_the_product_of_its_axes(methods, seeds, widths):
    text = f'[grid]\nmethod = {methods}\nseed = {seeds}\n"network.d" = {widths}'
    found = {(s.method, s.seed, s.network_options["d"]) for s in expand(Study.parse(text))}
    assert found == set(product(methods, seeds, widths))


def test_controls_stand_beside_their_run_and_are_shared_where_they_are_the_same_run():
    text = 'controls = ["frozen", "shallow"]\n[fixed]\nmethod = "dfa"\n[grid]\npenalty = [0.0, 0.01, 0.1]'
    runs = expand(Study.parse(text))
    assert [(spec.penalty, spec.control) for spec in runs] == [
        (0.0, "none"), (0.0, "frozen"), (0.0, "shallow"), (0.01, "none"), (0.1, "none")
    ]  # fmt: skip


def test_the_ladder_has_a_rung_for_every_block_but_the_first_and_is_frozen_at_its_foot():
    runs = expand(Study.parse('controls = ["ladder"]\n[fixed]\n"network.depth" = 3'))
    assert [spec.control for spec in runs] == ["none", "frozen", "ladder-1", "ladder-2"]
    assert len(expand(Study.parse('controls = ["ladder"]'))) == 1 + 4  # the network's own depth


def test_single_rungs_can_be_named():
    assert [spec.control for spec in expand(Study.parse('controls = ["ladder-2"]'))] == ["none", "ladder-2"]


def test_a_plan_refuses_a_rung_that_the_network_does_not_have():
    study = Study.parse('controls = ["ladder-9"]\n[fixed]\n"network.depth" = 2')
    with pytest.raises(InvalidInput, match="The ladder has rungs 0 to 2 on this network, got 9"):
        plan(study)


def test_a_plan_refuses_a_network_that_the_method_does_not_support():
    study = Study.parse('[fixed]\nmethod = "state_bridge"\nnetwork = "small_cnn"\ndata = "cifar10"')
    expected = "The method 'state_bridge' does not support the network 'small_cnn'.\nIt cannot give credit"
    with pytest.raises(InvalidInput, match=expected):
        plan(study)


def test_a_control_has_no_controls():
    runs = expand(Study.parse('controls = ["frozen"]\n[grid]\ncontrol = ["shallow"]'))
    assert [spec.control for spec in runs] == ["shallow"]


def test_an_addition_shares_what_is_fixed_and_the_seeds():
    text = """
    [fixed]
    epochs = 3
    [grid]
    method = ["bp"]
    seed = [1, 2]
    [[include]]
    method = "dfa"
    "method.index" = ["input", "output"]
    [[include]]
    method = "fa"
    seed = 7
    """
    runs = expand(Study.parse(text))
    assert [(s.method, s.seed, s.epochs) for s in runs] == [
        ("bp", 1, 3), ("bp", 2, 3), ("dfa", 1, 3), ("dfa", 1, 3), ("dfa", 2, 3), ("dfa", 2, 3), ("fa", 7, 3)
    ]  # fmt: skip


def test_additions_alone_make_a_study():
    assert [spec.method for spec in expand(Study.parse('[[include]]\nmethod = ["dfa", "fa"]'))] == ["dfa", "fa"]


def test_exclusion_looks_at_defaults_too():
    text = '[grid]\nmethod = ["bp", "dfa"]\npenalty = [0.0, 0.1]\n[[exclude]]\nmethod = "bp"\npenalty = [0.1, 0.2]'
    assert [(s.method, s.penalty) for s in expand(Study.parse(text))] == [("bp", 0.0), ("dfa", 0.0), ("dfa", 0.1)]
    gone = '[grid]\n"network.d" = [8, 256]\n[[exclude]]\n"network.depth" = 4\n"network.d" = 8'
    assert [s.network_options["d"] for s in expand(Study.parse(gone))] == [256]


def test_a_budget_has_the_last_word_over_grid_and_additions():
    text = """
    controls = ["frozen", "shallow"]
    [fixed]
    epochs = 100
    [grid]
    seed = [1, 2, 3]
    [[include]]
    method = "dfa"
    epochs = 200
    [budget.smoke]
    epochs = 1
    seed = [1]
    controls = ["frozen"]
    """
    study = Study.parse(text)
    assert len(expand(study)) == 3 * 3 * 2
    assert [(s.method, s.epochs, s.seed, s.control) for s in expand(study, "smoke")] == [
        ("bp", 1, 1, "none"), ("bp", 1, 1, "frozen"), ("dfa", 1, 1, "none"), ("dfa", 1, 1, "frozen")
    ]  # fmt: skip


def test_the_additions_of_a_budget_stand_in_the_place_of_the_grid():
    text = """
    [fixed]
    epochs = 100
    [grid]
    method = ["bp", "fa"]
    seed = [1, 2]
    [[include]]
    method = "dfa"
    [budget.laptop]
    batch_size = 64
    [[budget.laptop.include]]
    method = "bp"
    epochs = 30
    [[budget.laptop.include]]
    network = "vit_mini"
    epochs = 3
    seed = 1
    """
    found = [(s.network, s.method, s.epochs, s.batch_size, s.seed) for s in expand(Study.parse(text), "laptop")]
    assert found == [("resmlp", "bp", 30, 64, 1), ("resmlp", "bp", 30, 64, 2), ("vit_mini", "bp", 3, 64, 1)]


def test_the_same_run_written_in_two_ways_is_planned_once():
    runs = plan(Study.parse('[grid]\nseed = [1]\n[[include]]\nseed = 1\n"network.d" = 256'))
    assert list(runs) == [RunSpec(seed=1).key]


def test_ten_thousand_runs_are_the_most(monkeypatch):
    monkeypatch.setattr("creditscope.study.expansion.MOST_RUNS", 5)
    assert len(expand(Study.parse("[grid]\nseed = [1, 2, 3, 4, 5]"))) == 5
    with pytest.raises(CreditscopeError, match="declares 6 runs"):
        expand(Study.parse("[grid]\nseed = [1, 2, 3, 4, 5, 6]"))


def test_an_expansion_is_remembered_until_the_study_or_the_code_changes(tmp_path, monkeypatch):
    study = Study.parse("[grid]\nseed = [1, 2]")
    first = plan(study, store=tmp_path)
    monkeypatch.setattr("creditscope.study.plan._checked", lambda *anything: pytest.fail("expanded again"))
    assert plan(study, store=tmp_path) == first
    with pytest.raises(pytest.fail.Exception):
        plan(Study.parse("[grid]\nseed = [1, 3]"), store=tmp_path)
    monkeypatch.setattr("creditscope.study.plan.__version__", "99")
    with pytest.raises(pytest.fail.Exception):
        plan(study, store=tmp_path)


def test_a_stored_expansion_depends_on_every_file_that_declares_a_run():
    ours = [kind for kind in RunSpec.__mro__ if kind.__module__.startswith("creditscope.")]
    assert {Path(inspect.getfile(kind)).resolve() for kind in ours} <= set(_sources())
    assert Path(labels.__file__).resolve() in _sources()


def test_a_damaged_memory_is_made_anew(tmp_path):
    study = Study.parse("[grid]\nseed = [1, 2]")
    first = plan(study, store=tmp_path)
    (path,) = (tmp_path / "expanded").iterdir()
    path.write_text("{")
    assert plan(study, store=tmp_path) == first


def test_plugins_are_recorded_in_every_run_and_never_remembered(tmp_path):
    study = Study.parse('plugins = ["json"]\n[grid]\nseed = [1]')
    runs = plan(study, plugins=["csv"], store=tmp_path)
    assert [spec.plugins for spec in runs.values()] == [("json", "csv")]
    assert not (tmp_path / "expanded").exists()
