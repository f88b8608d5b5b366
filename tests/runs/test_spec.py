"""A key is the run: it changes with whatever changes the numbers, and with nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from creditscope.errors import InvalidInput, UnknownName
from creditscope.methods import methods
from creditscope.networks import networks
from creditscope.options import options_of
from creditscope.records.run import RunRecord
from creditscope.runs import spec as module
from creditscope.runs.run import load_data, train
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


def test_every_committed_record_keeps_its_key():
    paths = sorted((Path(__file__).parents[2] / "results" / "records").rglob("*.json"))
    assert len(paths) >= 186
    for path in paths:
        record = RunRecord.from_json(path)
        assert RunSpec.model_validate(record.spec).key == record.key == path.stem


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
        {"optimiser": "sgd"},
        {"schedule": "constant"},
        {"loss": "squared_error"},
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
    known = options_of("network", networks["resmlp"])
    monkeypatch.setattr(module, "options_of", lambda part, _: {**known, "dropout": 0.0} if part == "network" else {})
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
    assert penalised.control_spec("frozen").key == plain.control_spec("frozen").key
    assert penalised.control_spec("ladder-0").key == plain.control_spec("frozen").key
    assert penalised.control_spec("ladder-1").key != plain.control_spec("ladder-1").key


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


def test_settings_are_flat_and_hold_what_was_given():
    spec = RunSpec(method="dfa", method_options={"index": "input"}, data="teacher", data_options={"widths": (8, 8)})
    settings = spec.settings()
    assert settings["method.index"] == "input"
    assert settings["data.widths"] == (8, 8)
    assert "network.d" not in settings
    assert "plugins" not in settings
    assert {"network", "data", "method", "penalty", "control", "epochs", "seed"} <= settings.keys()


def test_settings_with_defaults_hold_every_option():
    settings = RunSpec(method="dfa").settings(defaults=True)
    assert settings["method.index"] == "output"
    assert settings["method.normalisation"] == "sample"
    assert settings["network.d"] == 256


def test_dataset_options_named_like_a_builder_s_arguments_are_options_of_the_run():
    plain, narrow = RunSpec(data="teacher"), RunSpec(data="teacher", data_options={"inputs": 20, "classes": 3})
    assert plain.settings(defaults=True)["data.inputs"] == 128
    assert narrow.key != plain.key
    data = load_data(narrow)
    assert data.shape == (20,)
    assert data.classes == 3


def test_an_array_and_a_tuple_are_the_same_option_and_survive_json():
    given = RunSpec(data="teacher", data_options={"widths": [64, 64]})
    assert given == RunSpec(data="teacher", data_options={"widths": (64, 64)})
    assert given.data_options["widths"] == (64, 64)
    assert RunSpec.model_validate_json(given.model_dump_json()) == given
    assert given.key == RunSpec(data="teacher", data_options={"widths": (64, 64)}).key
    assert given.key != RunSpec(data="teacher").key


def test_a_run_writes_every_resolved_option_and_the_facts_of_its_network(tmp_path):
    spec = RunSpec(epochs=1, method="dfa", network_options={"d": 8, "depth": 1, "terminal_ln": False})
    train(spec).save(tmp_path)
    record = RunRecord.from_json(tmp_path / "record.json")
    assert record.resolved == spec.settings(defaults=True)
    assert record.resolved["network.d"] == 8
    assert record.network is not None
    assert not record.network.terminal_layernorm


def test_a_record_of_before_the_facts_still_loads(tmp_path):
    spec = RunSpec(epochs=0, network_options={"d": 8, "depth": 1})
    content = json.loads(train(spec).record.model_dump_json())
    for name in ("resolved", "method", "network"):
        del content[name]
    (tmp_path / "record.json").write_text(json.dumps(content))
    record = RunRecord.from_json(tmp_path / "record.json")
    assert (record.resolved, record.method, record.network) == ({}, None, None)
