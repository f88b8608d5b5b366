"""A key is the run: it changes with whatever changes the numbers, and with nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from creditscope.errors import InvalidInput, UnknownName
from creditscope.methods import methods
from creditscope.networks import networks
from creditscope.runs import spec as module
from creditscope.runs.spec import RunSpec

# Keys as they were when these entries were first released. A failure here means that every stored run of that kind
# would be done again: name a new option in LATER_OPTIONS, a new field in LATER_FIELDS; or raise a revision on purpose.
RELEASED = {
    "ce45be8715c4f81e": RunSpec(data="cifar10", epochs=30, method="bp"),
    "ea26e808a0584de9": RunSpec(data="cifar10", epochs=30, method="dfa"),
    "8e4388d83384752f": RunSpec(data="cifar10", epochs=30, method="dfa", penalty=0.01),
}


@pytest.mark.parametrize("key", RELEASED)
def test_released_keys_stay(key):
    assert RELEASED[key].key == key


def test_a_default_that_is_written_out_is_the_same_run():
    written = RunSpec(network_options={"d": 256, "depth": 4}, method="dfa", method_options={"index": "output"})
    assert written.key == RunSpec(method="dfa").key


def test_one_and_one_point_zero_are_the_same_value_of_a_float_option():
    assert RunSpec(network_options={"w2_std": 1}).key == RunSpec(network_options={"w2_std": 1.0}).key


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 43},
        {"epochs": 99},
        {"method": "dfa"},
        {"penalty": 0.01},
        {"control": "frozen"},
        {"network_options": {"d": 128}},
        {"augment": False},
        {"random_labels": True},
        {"learning_rate": 2e-3},
        {"plugins": ("json",)},
    ],
    ids=str,
)
def test_whatever_changes_the_run_changes_its_key(change):
    assert RunSpec(**change).key != RunSpec().key


@given(seeds=st.lists(st.integers(0, 10**9), unique=True, min_size=2, max_size=5))
def test_seeds_never_share_a_key(seeds):
    assert len({RunSpec(seed=seed).key for seed in seeds}) == len(seeds)


def test_a_later_field_leaves_old_keys_alone_until_it_is_used(monkeypatch):
    class Later(RunSpec):
        warmup: int = 0

    monkeypatch.setattr(module, "LATER_FIELDS", {"warmup": 0})
    assert Later().key == RunSpec().key
    assert Later(warmup=1).key != RunSpec().key


def test_a_later_option_leaves_old_keys_alone_until_it_is_used(monkeypatch):
    old = RunSpec().key
    entry = networks["resmlp"]
    known = module.known_options(entry)
    monkeypatch.setattr(module, "known_options", lambda found: {**known, "dropout": 0.0} if found is entry else {})
    assert RunSpec().key != old
    monkeypatch.setattr(module, "LATER_OPTIONS", {"network:resmlp": {"dropout": 0.0}})
    assert RunSpec().key == old
    assert RunSpec(network_options={"dropout": 0.5}).key != old


def test_a_raised_revision_makes_every_run_of_that_kind_another_one(monkeypatch):
    bp, dfa = RunSpec().key, RunSpec(method="dfa").key
    monkeypatch.setattr(methods["dfa"], "revision", 99)
    assert RunSpec().key == bp
    assert RunSpec(method="dfa").key != dfa


def test_penalised_and_plain_runs_share_the_twin_in_which_no_block_learns():
    plain, penalised = RunSpec(method="dfa"), RunSpec(method="dfa", penalty=0.01)
    assert penalised.twin("frozen").key == plain.twin("frozen").key
    assert penalised.twin("ladder-0").key == plain.twin("frozen").key
    assert penalised.twin("ladder-1").key != plain.twin("ladder-1").key


def test_an_unknown_option_is_refused_with_the_nearest_one():
    with pytest.raises(UnknownName, match="no option of network 'resmlp' called 'dpth'. Did you mean 'depth'"):
        RunSpec(network_options={"dpth": 3}).resolved()
    with pytest.raises(InvalidInput, match="d of network 'resmlp' is 3.5, of type float"):
        RunSpec(network_options={"d": 3.5}).resolved()


@pytest.mark.parametrize(
    "wrong", [{"seed": -1}, {"epochs": -1}, {"control": "thawed"}, {"learning_rate": 0.0}, {"x": 1}]
)
def test_values_that_no_run_can_have_are_refused(wrong):
    with pytest.raises(ValidationError):
        RunSpec(**wrong)


def test_a_title_tells_runs_apart():
    spec = RunSpec(
        method="dfa", method_options={"index": "input"}, penalty=0.01, control="ladder-1", random_labels=True
    )
    assert spec.title == (
        "dfa(index=input) + penalty 0.01, ladder-1 on mnist1d with random labels, resmlp, 100 epochs, seed 42"
    )
