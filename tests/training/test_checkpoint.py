"""Checkpoints: one folder with weights, feedback and auxiliary networks, and a record that comes last."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

from creditscope.batch import Batch
from creditscope.errors import BadFile
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.rule import Feedback
from creditscope.networks.build import build
from creditscope.records.run import RunRecord
from creditscope.runs.run import load
from creditscope.training.checkpoint import Checkpoint, read_tensors
from creditscope.training.weights import WeightsMismatch, load_weights


@pytest.fixture
def checkpoint() -> Checkpoint:
    network = build("small_cnn", (3, 8, 8), 3, 1, channels=2, width=5).eval()
    example = Batch(torch.zeros(2, 3, 8, 8), torch.zeros(2, dtype=torch.long))
    drawn = DirectFeedback().feedback(network, example, torch.Generator().manual_seed(0))
    feedback = Feedback(drawn.tensors, nn.ModuleDict({"bridge": nn.Linear(2, 2)}))
    record = RunRecord(versions={"torch": torch.__version__}, device="cpu", test_images=7, history=())
    return Checkpoint(network, DirectFeedback(), feedback, record, example)


def test_a_folder_holds_everything_by_name(checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = checkpoint.save(tmp_path / "deep" / "run")
    assert sorted(path.name for path in folder.iterdir()) == ["record.json", "weights.safetensors"]
    parts = read_tensors(folder)
    assert parts.keys() == {"network", "feedback", "auxiliary"}
    assert parts["network"].keys() == checkpoint.network.state_dict().keys()
    assert parts["auxiliary"].keys() == {"bridge.weight", "bridge.bias"}
    assert all(torch.equal(parts["feedback"][name], tensor) for name, tensor in checkpoint.feedback.tensors.items())
    found = RunRecord.from_json(folder / "record.json")
    assert found.weights_checksum == hashlib.sha256((folder / "weights.safetensors").read_bytes()).hexdigest()
    assert found.model_copy(update={"weights_checksum": ""}) == checkpoint.record


def test_what_is_saved_does_not_move_with_the_network(checkpoint: Checkpoint) -> None:
    tensors = checkpoint.tensors()
    before = tensors["network.head.weight"].clone()
    with torch.no_grad():
        checkpoint.network.get_parameter("head.weight").add_(1)
    assert torch.equal(tensors["network.head.weight"], before)


def test_a_write_that_is_interrupted_leaves_the_old_run_whole(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", fail)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_record_is_never_beside_the_weights_of_another_run(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint.save(tmp_path)

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunRecord, "to_json", fail)
    with pytest.raises(KeyboardInterrupt):
        checkpoint.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["weights.safetensors"]


def test_its_credit_is_the_rule_with_its_own_feedback(checkpoint: Checkpoint) -> None:
    bound = checkpoint.credit()
    assert (bound.rule, bound.network, bound.feedback) == (checkpoint.rule, checkpoint.network, checkpoint.feedback)


def test_a_folder_without_readable_weights_is_refused(tmp_path: Path) -> None:
    for content in (None, b"no tensors here"):
        if content:
            (tmp_path / "weights.safetensors").write_bytes(content)
        with pytest.raises(BadFile, match=r"weights\.safetensors cannot be read") as found:
            read_tensors(tmp_path)
        assert "There are no weights to audit. Train the run again" in str(found.value)


def test_a_checkpoint_is_shown_in_one_short_line(checkpoint: Checkpoint) -> None:
    assert re.fullmatch(r"Checkpoint\('\w+', SmallCNN, accuracy \S+\)", repr(checkpoint))


def test_a_folder_that_is_not_there_is_named_without_an_error_number(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read: No such file or directory.\nCheck the path") as found:
        load(tmp_path / "nowhere")
    assert "Errno" not in str(found.value)


def test_parts_that_are_missing_are_empty(tmp_path: Path) -> None:
    save_file({"network.weight": torch.zeros(2)}, tmp_path / "weights.safetensors")
    assert read_tensors(tmp_path)["feedback"] == {} == read_tensors(tmp_path)["auxiliary"]


def test_weights_load_whole(checkpoint: Checkpoint, tmp_path: Path) -> None:
    parts = read_tensors(checkpoint.save(tmp_path))
    twin = build("small_cnn", (3, 8, 8), 3, 2, channels=2, width=5)
    load_weights(twin, parts["network"], "the file")
    assert all(torch.equal(a, b) for a, b in zip(twin.parameters(), checkpoint.network.parameters(), strict=True))


def test_weights_that_do_not_fit_are_listed_and_nothing_is_loaded(checkpoint: Checkpoint, tmp_path: Path) -> None:
    tensors = load_file(checkpoint.save(tmp_path) / "weights.safetensors")
    network = {name.removeprefix("network."): t for name, t in tensors.items() if name.startswith("network.")}
    wrong = {**network, "extra.weight": torch.zeros(1), "head.bias": torch.zeros(4)}
    del wrong["embed.bn.running_mean"]
    before = {name: tensor.clone() for name, tensor in checkpoint.network.state_dict().items()}
    with pytest.raises(WeightsMismatch, match="The weights of my file do not fit SmallCNN") as found:
        load_weights(checkpoint.network, wrong, "my file")
    for line in (
        "Missing in the file (1):\n    embed.bn.running_mean",
        "Unexpected in the file (1):\n    extra.weight",
        "Of another shape (1):\n    head.bias: 4 in the file, 3 in the network",
        "Part of the network would keep its random weights",
    ):
        assert line in str(found.value)
    assert all(torch.equal(before[name], tensor) for name, tensor in checkpoint.network.state_dict().items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "The run record .*record.json cannot be read: .*\nCheck the path"),
        ('{"schema_version": 3}', "has schema version 3, this creditscope reads 1 and 2.\nFields may have changed"),
        ("{", "is not a creditscope run record: .*\nTrain again to make one"),
        ("[]", "has schema version None"),
        ('{"schema_version": 1}', "is not a creditscope run record"),
    ],
    ids=["missing", "newer", "cut", "a list", "half"],
)
def test_a_record_that_is_none_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "record.json").write_text(text)
    with pytest.raises(BadFile, match=f"(?s){message}"):
        RunRecord.from_json(tmp_path / "record.json")
