"""Snapshots: every tensor and every row back as it was, or a refusal."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from creditscope.errors import BadFile, DamagedFile
from creditscope.methods.rule import Feedback
from creditscope.records.folder import recover_snapshot
from creditscope.records.run import HistoryRow
from creditscope.training.snapshots import Snapshot, gathered, read_snapshot, write_snapshot

ROW = HistoryRow(
    epoch=0,
    loss=float("nan"),
    accuracy=0.5,
    hidden_norms=(1.0, float("inf")),
    gradient_norms=(1e-300, 0.1),
    d1=float("inf"),
    d2=1e-9,
    auxiliary={"bridge_loss": 0.25},
)


def parts(seed: int) -> tuple[nn.Module, Feedback, torch.optim.AdamW, torch.Generator]:
    """A network with BatchNorm, feedback with a network that learns, their optimisers, a generator in mid-stream."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(27, 4))
        bridge = nn.ModuleDict({"bridge": nn.Linear(4, 4)})
    optimiser = torch.optim.AdamW(network.parameters(), fused=True)
    learner = torch.optim.Adam(bridge.parameters(), lr=1e-3, fused=True)
    generator = torch.Generator().manual_seed(seed)
    feedback = Feedback({"B.0": torch.randn(4, 3, generator=generator)}, bridge, learner)
    return network, feedback, optimiser, generator


def step(network: nn.Module, feedback: Feedback, optimiser: torch.optim.AdamW, generator: torch.Generator) -> None:
    """One update of everything that can move."""
    assert feedback.networks is not None
    assert feedback.optimiser is not None
    out = network(torch.randn(6, 2, 5, 5, generator=generator))
    loss = (feedback.networks["bridge"](out) @ feedback.tensors["B.0"]).square().mean()
    optimiser.zero_grad()
    feedback.optimiser.zero_grad()
    loss.backward()
    optimiser.step()
    feedback.optimiser.step()


def test_what_goes_on_from_a_file_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    running = parts(1)
    for _ in range(3):
        step(*running)
    write_snapshot(tmp_path / "snapshot", Snapshot("a run", gathered(*running), (ROW, ROW)))
    found = read_snapshot(tmp_path / "snapshot")
    network, feedback, optimiser, generator = parts(2)
    feedback = found.restore(network, feedback, optimiser, generator)
    restored = (network, feedback, optimiser, generator)
    for _ in range(3):
        step(*running)
        step(*restored)
    one, two = gathered(*running), gathered(*restored)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_every_part_of_a_run_is_in_it() -> None:
    running = parts(1)
    step(*running)
    names = gathered(*running).keys()
    assert {name.split(".")[0] for name in names} == {
        "network", "feedback", "auxiliary", "optimiser", "learner", "generator",
    }  # fmt: skip
    assert {"network.1.running_var", "optimiser.0.exp_avg", "optimiser.0.step", "learner.1.exp_avg_sq"} <= names


def test_a_run_without_feedback_or_steps_comes_back_too(tmp_path: Path) -> None:
    network, _, optimiser, generator = parts(1)
    write_snapshot(tmp_path / "snapshot", Snapshot("", gathered(network, Feedback(), optimiser, generator), ()))
    other, _, optimiser, generator = parts(2)
    feedback = read_snapshot(tmp_path / "snapshot").restore(other, Feedback(), optimiser, generator)
    assert feedback == Feedback()
    assert all(torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))


def test_rows_come_back_with_nan_and_infinity(tmp_path: Path) -> None:
    write_snapshot(tmp_path / "snapshot", Snapshot("a run", {"generator": torch.zeros(1)}, (ROW,)))
    found = read_snapshot(tmp_path / "snapshot")
    assert found.run == "a run"
    assert [row.model_dump_json() for row in found.history] == [ROW.model_dump_json()]


def test_a_snapshot_is_either_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_snapshot(tmp_path / "snapshot", Snapshot("before", {"generator": torch.zeros(1)}, ()))

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("creditscope.training.snapshots.save", fail)
    with pytest.raises(KeyboardInterrupt):
        write_snapshot(tmp_path / "snapshot", Snapshot("after", {"generator": torch.zeros(1)}, ()))
    assert read_snapshot(tmp_path / "snapshot").run == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["snapshot"]


def written(path: Path, *runs: str) -> Path:
    for run in runs:
        write_snapshot(path, Snapshot(run, {"generator": torch.arange(5.0)}, (ROW,)))
    return path


def test_any_changed_bit_of_a_snapshot_is_found(tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", "a run")
    content, draw = path.read_bytes(), random.Random(3)
    for place in draw.sample(range(8 * len(content)), 150):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(DamagedFile):
            read_snapshot(path)


def test_a_damaged_snapshot_is_set_aside_with_its_reason_and_the_one_before_takes_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", "first", "second", "third")
    assert recover_snapshot(path) == ""
    path.write_bytes(path.read_bytes()[:-3])
    notice = recover_snapshot(path)
    assert "its checksum does not match" in notice
    assert "resumes from the snapshot before" in notice
    assert read_snapshot(path).run == "second"
    assert "checksum" in (tmp_path / "snapshot.damaged.txt").read_text()
    path.write_bytes(b"")
    assert "starts again from its first epoch" in recover_snapshot(path)
    assert not path.exists()


def test_a_process_killed_between_two_renames_leaves_the_snapshot_before(tmp_path: Path) -> None:
    path = written(tmp_path / "snapshot", "first", "second")
    path.unlink()
    assert recover_snapshot(path) == ""
    assert read_snapshot(path).run == "first"


def test_a_snapshot_of_before_there_were_checksums_is_read_if_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    save_file({"generator": torch.arange(5.0)}, path, {"history": "[]", "run": "an older run"})
    assert read_snapshot(path).run == "an older run"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(DamagedFile):
        read_snapshot(path)
    path.write_bytes(content.replace(b'"run"', b'"rum"'))
    with pytest.raises(DamagedFile):
        read_snapshot(path)


@pytest.mark.parametrize(
    "header",
    [
        None,
        {"run": "a run"},
        {"history": "[]"},
        {"history": "[", "run": "a run"},
        {"history": "[1]", "run": "a run"},
        {"history": json.dumps(['{"epoch": 0}']), "run": "a run"},
    ],
    ids=["no header", "no history", "no run", "cut", "no row", "half a row"],
)
def test_other_weights_are_not_taken_for_a_snapshot(header: dict[str, str] | None, tmp_path: Path) -> None:
    save_file({"generator": torch.zeros(1)}, tmp_path / "snapshot", header)
    with pytest.raises(BadFile, match="is not a snapshot of a run: .*") as found:
        read_snapshot(tmp_path / "snapshot")
    assert "Remove it to start the run again" in str(found.value)


def test_a_damaged_or_missing_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"no tensors here")
    for name in ("damaged", "missing"):
        with pytest.raises(BadFile, match=f"{name} is not a snapshot of a run"):
            read_snapshot(tmp_path / name)
