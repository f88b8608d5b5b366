"""Bad input: exit code 2, a reason and a remedy, no traceback, and nothing left behind."""

from __future__ import annotations

import os
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file


@pytest.fixture
def refused(audited, folder):
    """Audit, expect a refusal that leaves the folder as it was, and return the words."""

    def call(*more: object, weights: str = "weights.safetensors") -> str:
        before = sorted(folder.rglob("*"))
        done = audited(*more, weights=weights)
        assert (done.code, done.out) == (2, "")
        assert "Traceback" not in done.err
        assert [path for path in sorted(folder.rglob("*")) if "__pycache__" not in str(path)] == before
        return done.err

    return call


def changed(**tensors: torch.Tensor) -> str:
    """Another batches file."""
    save_file(load_file("batches.safetensors") | tensors, "batches.safetensors")
    return "batches.safetensors"


@pytest.mark.parametrize("option", ["--accuracy", "--control-accuracy"])
def test_an_accuracy_of_31_is_refused(refused, option):
    message = refused(option, "31")
    assert "= 31 is not a share between 0 and 1" in message
    assert "Did you mean 0.31?" in message


def test_an_accuracy_that_is_no_number_is_refused(refused):
    assert "Invalid value for '--accuracy'" in refused("--accuracy", "good")


def test_missing_and_unexpected_keys_and_other_shapes_are_listed(refused):
    weights = load_file("weights.safetensors")
    weights["extra.weight"] = weights.pop("blocks.0.w1.weight")
    weights["out_head.bias"] = torch.zeros(4)
    save_file(weights, "other.safetensors")
    message = refused(weights="other.safetensors")
    assert "Missing in the file (1):\n    blocks.0.w1.weight\n" in message
    assert "Unexpected in the file (1):\n    extra.weight\n" in message
    assert "out_head.bias: 4 in the file" in message


def test_a_long_list_of_keys_is_cut(refused):
    save_file(load_file("weights.safetensors") | {f"extra.{i}": torch.zeros(1) for i in range(20)}, "more.safetensors")
    message = refused(weights="more.safetensors")
    assert "Unexpected in the file (20):" in message
    assert "    and 8 more\n" in message


def test_weights_of_another_network_are_refused(folder, creditscope):
    done = creditscope("audit", "weights.safetensors", "--network", "resmlp", "--batches", "batches.safetensors")
    assert done.code == 2
    assert "embed.weight: 8 x 6 in the file, 256 x 6 in the network" in done.err
    assert "Give the network and the options with which it was trained." in done.err


@pytest.mark.parametrize("kind", ["plain pickle", "whole model"])
def test_a_pickle_is_refused_and_its_code_never_runs(refused, folder, kind):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(folder / "exploded"),)

    if kind == "plain pickle":
        (folder / "weights.pkl").write_bytes(pickle.dumps(Bomb()))
    else:
        torch.save({"model": Bomb()}, "weights.pkl")
    message = refused(weights="weights.pkl")
    assert "A pickle can run any code when it is loaded, so it was not loaded." in message
    assert "save_file(model.state_dict()" in message


def test_a_torch_file_with_two_networks_is_refused(refused):
    torch.save({"model": load_file("weights.safetensors"), "ema": load_file("weights.safetensors")}, "two.pt")
    assert "several state dicts (model, ema)" in refused(weights="two.pt")


def test_a_torch_file_without_tensors_is_refused(refused):
    torch.save({"accuracy": 0.31}, "none.pt")
    assert "no state dict" in refused(weights="none.pt")


@pytest.mark.parametrize("content", [b"", b"accuracy,0.31\n", b"PK\x03\x04 cut", b"\x10\0\0\0\0\0\0\0{cut"])
def test_a_damaged_or_foreign_weights_file_is_refused(refused, folder, content):
    (folder / "odd.bin").write_bytes(content)
    assert "odd.bin" in refused(weights="odd.bin")


def test_a_half_written_safetensors_file_is_refused(refused, folder):
    (folder / "cut.safetensors").write_bytes((folder / "weights.safetensors").read_bytes()[:-8])
    assert "not a complete safetensors file" in refused(weights="cut.safetensors")


@pytest.mark.parametrize("weights", ["missing.safetensors", "."])
def test_weights_that_are_not_there_are_refused(refused, weights):
    assert f"{weights} cannot be read" in refused(weights=weights)


def test_missing_batches_are_refused(folder, creditscope):
    done = creditscope("audit", "weights.safetensors", "--network", "resmlp", "--batches", "none.safetensors")
    assert done.code == 2
    assert "none.safetensors cannot be read" in done.err


def test_a_batches_file_without_labels_is_refused(refused, folder):
    save_file({"x": torch.zeros(3, 6)}, "batches.safetensors")
    message = refused()
    assert "holds x." in message
    assert "`inputs` (N, ...) and `labels` (N,)" in message


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"inputs": torch.zeros(0, 6), "labels": torch.zeros(0, dtype=torch.long)}, "inputs of shape (0, 6)"),
        ({"labels": torch.zeros(7, dtype=torch.long)}, "labels of shape (7,)"),
        ({"labels": torch.full((300,), 3)}, "labels from 3 to 3, but the model has 3 classes"),
        ({"labels": torch.zeros(300)}, "not class numbers"),
        ({"labels": torch.zeros(300, dtype=torch.bool)}, "not class numbers"),
        ({"inputs": torch.ones(300, 6)}, "hold the same samples"),
    ],
)
def test_batches_that_cannot_be_what_they_claim_are_refused(refused, tensors, said):
    changed(**tensors)
    if said == "hold the same samples":
        changed(labels=torch.zeros(300, dtype=torch.long))
    assert said in refused("--batch-size", "100")


def test_inputs_of_the_wrong_shape_are_refused(folder, creditscope):
    (folder / "fixed.py").write_text(
        "from creditscope.networks.build import build\ndef make():\n    return build('resmlp', 6, 3, 0, d=8, depth=2)\n"
    )
    changed(inputs=torch.randn(300, 5))
    done = creditscope("audit", "weights.safetensors", "--model", "fixed:make", "--batches", "batches.safetensors")
    assert done.code == 2
    assert "cannot take inputs of shape" in done.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--network", "resmpl"), "Did you mean 'resmlp'?"),
        (("--option", "dept=3"), "Did you mean 'depth'?"),
        (("--option", "d"), "is not of the form name=value"),
        (("--option", "d=9"), "gives d twice: 8 and 9"),
        (("--protocol", "tree"), "Did you mean 'three'?"),
        (("--threshold", "D21=3"), "Did you mean 'D2'?"),
        (("--threshold", "D1=high"), "is not a number"),
        (("--threshold", "D1=nan"), "number"),
        (("--blocks", "block"), "Did you mean 'blocks'?"),
        (("--blocks", "embed"), "not a list of blocks"),
        (("--read", "frist"), "'auto', 'first', 'mean', 'all' or a token index"),
        (("--device", "gpu"), "The device 'gpu' cannot be used"),
        (("--device", "meta"), "The device 'meta' cannot be used"),
        (("--device", "cuda:99"), "The device 'cuda:99' cannot be used"),
        (("--limit", "0"), "--limit"),
        (("--batch-size", "-1"), "--batch-size"),
        (("--threads", "0"), "--threads"),
        (("--data", "mnist1d"), "Both --data and --batches were given"),
        (("--model", "a:b"), "Both --network and --model were given"),
        (("--frozen", "0.3"), "has no option --frozen"),
    ],
)
def test_options_that_make_no_sense_are_refused(refused, options, said):
    assert said in refused(*options)


def test_an_unknown_dataset_suggests_the_nearest(folder, creditscope):
    done = creditscope("audit", "weights.safetensors", "--network", "resmlp", "--data", "mnist1")
    assert done.code == 2
    assert "Did you mean 'mnist1d'?" in done.err


def test_a_dataset_that_cannot_be_fetched_says_where_its_files_go(folder, creditscope, monkeypatch):
    monkeypatch.setenv("CREDITSCOPE_OFFLINE", "1")
    options = ("--network", "resmlp", "--data", "cifar100", "--data-dir", folder / "empty")
    done = creditscope("audit", "weights.safetensors", *options)
    assert done.code == 2
    assert "empty" in done.err


def test_neither_network_nor_data_is_refused(folder, creditscope):
    assert "Neither --data nor --batches" in creditscope("audit", "weights.safetensors").err
    assert "Neither --network nor --model" in creditscope("audit", "weights.safetensors", "--data", "mnist1d").err


@pytest.mark.parametrize("place", ["weights.safetensors/report.json", "taken.json"])
def test_a_report_that_cannot_be_written_is_found_out_first(refused, folder, place):
    (folder / "taken.json").mkdir()
    message = refused("--out", place)
    assert "cannot be written" in message
    assert "folder" in message


def test_a_file_without_the_suffix_of_a_format_is_found_out_first(refused):
    message = refused("--out", "report.doc")
    assert "has no suffix that belongs to a report format" in message
    assert "markdown (.md .markdown)" in message


def test_a_report_in_a_folder_of_another_user_is_refused(refused, folder, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    assert "no permission to write" in refused("--out", "report.json")


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("own", "does not name a function"),
        ("nowhere:make", "No module named 'nowhere'"),
        ("broken:make", "ZeroDivisionError"),
        ("own:mkae", "Did you mean 'make'?"),
        ("own:number", "is a int, not a function"),
        ("own:text", "returned a str, not a torch.nn.Module"),
        ("own:needs", "missing 1 required positional argument"),
    ],
)
def test_a_function_of_ones_own_that_does_not_work_is_refused(folder, creditscope, model, said):
    (folder / "broken.py").write_text("1 / 0\n")
    (folder / "own.py").write_text(
        "number = 3\ndef make():\n    return 3\ndef text():\n    return 'a'\ndef needs(width):\n    return width\n"
    )
    done = creditscope("audit", "weights.safetensors", "--model", model, "--batches", "batches.safetensors")
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err
