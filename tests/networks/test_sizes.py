"""Sizes are checked against memory and sense before anything is allocated."""

from __future__ import annotations

import pytest

from creditscope.cli import run
from creditscope.datasets.teacher import teacher
from creditscope.errors import InvalidInput, OutOfResources
from creditscope.networks import networks, sizes
from creditscope.networks.build import build, network_options
from creditscope.networks.sizes import check_options, check_size
from creditscope.training.recipe import Recipe

IMAGE = (3, 32, 32)


@pytest.mark.parametrize("name", list(networks))
def test_the_bytes_of_a_sketch_are_those_of_the_network(name, monkeypatch):
    options = network_options(name)
    built = build(name, IMAGE, 10, seed=0)
    real = sum(t.numel() * t.element_size() for t in (*built.parameters(), *built.buffers()))
    assert sizes._bytes(name, IMAGE, 10, options) == real
    monkeypatch.setattr(sizes, "LARGE", 0)  # on the device meta
    assert sizes._bytes(name, IMAGE, 10, options) == real
    assert real <= sizes._at_most(IMAGE, 10, options)


def test_a_network_just_above_the_memory_is_refused_and_one_just_below_is_not(monkeypatch):
    options = {"d": 64, "depth": 2}
    needed = sizes._bytes("resmlp", (40,), 10, {**network_options("resmlp"), **options})
    monkeypatch.setattr(sizes, "memory", lambda: int(needed))
    check_size("resmlp", 40, 10, options)
    monkeypatch.setattr(sizes, "memory", lambda: int(needed) - 1)
    with pytest.raises(OutOfResources, match=r"'resmlp' with d=64, depth=2 would need .* bytes for its weights alone"):
        check_size("resmlp", 40, 10, options)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"d": 2_000_000}, OutOfResources, "would need 5.1e[+]14 bytes for its weights, their gradient"),
        ({"d": 999_999_999_999}, OutOfResources, "more than 9e18 bytes"),
        ({"depth": 99_999_999}, InvalidInput, "depth is 99,999,999"),
        ({"d": 0}, InvalidInput, "d is 0"),
        ({"depth": -1}, InvalidInput, "depth is -1"),
    ],
)
def test_absurd_sizes_are_refused_before_any_data_are_known(options, error, words):
    with pytest.raises(error, match=words):
        check_options("resmlp", options)


def test_a_size_that_depends_on_the_samples_is_left_to_the_run():
    check_options("vit_mini", {"patch": 5})  # fits no nominal image, but images of 5 x 5 pixels
    check_options("resmlp", {"depth": 0})  # the shallow control


def test_every_way_to_build_a_network_is_checked():
    with pytest.raises(OutOfResources, match="bytes for its weights alone"):
        build("resmlp", 40, 10, seed=0, d=2_000_000)
    with pytest.raises(InvalidInput, match="depth is 99,999,999"):
        build("mlp", 40, 10, seed=0, depth=99_999_999)


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ('"network.d" = 999999999999', 75, "more than 9e18 bytes"),
        ('"network.d" = 0', 2, "d is 0"),
        ('"network.depth" = 99999999', 2, "depth is 99,999,999"),
        ("epochs = 10000000000000000000000", 2, "epochs: must be at most 1,000,000, got 10000000000000000000000"),
        ("seed = 99999999999999999999", 2, "seed: must be at most 9,223,372,036,854,775,807"),
    ],
)
def test_a_dry_run_refuses_what_no_run_could_do(tmp_path, capsys, line, code, words):
    study = tmp_path / "study.toml"
    study.write_text(f"[fixed]\n{line}\n")
    assert run(["study", "run", str(study), "--store", str(tmp_path / "store"), "--dry-run"]) == code
    assert words in capsys.readouterr().err


def test_recipes_and_generated_data_have_sensible_sizes():
    with pytest.raises(InvalidInput, match="epochs must be a whole number of at most 1,000,000"):
        Recipe(epochs=10**22)
    with pytest.raises(OutOfResources, match="This teacher task would need 1.5e[+]15 bytes"):
        teacher(samples=(10**12, 1))
    with pytest.raises(InvalidInput, match="seed must be a whole number"):
        teacher(seed=2**64)


@pytest.mark.parametrize("blocks", ["1000000000", "1" + "0" * 400])
def test_a_billion_blocks_of_a_log_end_at_once(tmp_path, capsys, blocks):
    log = tmp_path / "log.json"
    log.write_text('[{"epoch": 0, "accuracy": 0.5, "h_0": 1.0, "h_1": 2.0}]')
    assert run(["partial-audit", str(log), "--blocks", blocks]) in (2, 3)
    assert "Traceback" not in capsys.readouterr().err
