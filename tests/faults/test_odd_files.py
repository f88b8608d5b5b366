"""Pipes, devices and archives that unpack to anything, in place of the files that a command expects."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from tests.faults.test_fuzzed_commands import at_most
from tests.study.made import record

from creditscope.cli import run
from creditscope.errors import BadFile
from creditscope.reading import read_bytes
from creditscope.records.folder import replace_snapshot
from creditscope.runs.spec import RunSpec
from creditscope.study.failure import Failure
from creditscope.study.store import RunState, Store
from creditscope.training.weights import read_weights

KEY = "0" * 16


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A pipe that nobody writes to: whoever opens it as a file is opened waits for ever."""
    os.mkfifo(tmp_path / "pipe.py")
    return tmp_path / "pipe.py"


@pytest.mark.parametrize(
    "line",
    ["audit PIPE --network resmlp --data mnist1d", "audit --arrays PIPE", "partial-audit PIPE", "verify PIPE",
     "study run PIPE", "study status PIPE", "report PIPE"],
)  # fmt: skip
def test_a_pipe_without_a_writer_is_refused_at_once(pipe, line, capsys):
    with at_most(20):
        assert run([str(pipe) if word == "PIPE" else word for word in line.split()]) == 2
    assert "not done within" not in capsys.readouterr().err


def test_a_pipe_among_sources_and_records_keeps_nobody_waiting(pipe, tmp_path, capsys):
    (tmp_path / KEY).mkdir()
    os.mkfifo(tmp_path / KEY / "record.json")
    with at_most(20):
        assert run(["lint", str(tmp_path)]) == 0
        assert run(["audit", str(tmp_path / KEY)]) == 2
        assert Store(tmp_path).damage(KEY)
    assert "holds no run" in capsys.readouterr().err


def test_a_pipe_with_a_writer_is_read_to_its_end():
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, b"a" * 100_000)
        os._exit(0)
    os.close(writing)
    assert len(read_bytes(f"/dev/fd/{reading}", "The text")) == 100_000
    os.close(reading)
    os.wait()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file outside of the store, to which a link in the store leads."""
    path = tmp_path / "victim"
    path.write_text("precious")
    return path


def test_nothing_is_written_through_a_link_in_a_store(tmp_path, victim):
    store, spec = Store(tmp_path / "store"), RunSpec(method="dfa", epochs=0)
    store.place(spec.key).mkdir(parents=True)
    links = [store.snapshot(spec.key), store.folder / f"{spec.key}.failed.json"]
    for link in (*links, store.place(spec.key) / "weights.safetensors", store.place(spec.key) / "record.json"):
        link.symlink_to(victim)
    replace_snapshot(store.snapshot(spec.key), b"snapshot")
    store.fail(Failure(key=spec.key, spec=spec.model_dump(mode="json"), error="", traceback=""))
    assert store.state(spec.key) is RunState.FAILED
    store.commit(spec.key, b"weights", record(spec))
    (store.place(spec.key) / "record.json").rename(tmp_path / "record.json")
    (store.place(spec.key) / "record.json").symlink_to(tmp_path / "record.json")
    before = (tmp_path / "record.json").read_bytes()
    store.amend(spec.key, record(spec, accuracy=0.7))
    assert (tmp_path / "record.json").read_bytes() == before
    assert victim.read_text() == "precious"
    assert not [path for path in store.folder.rglob("*") if path.is_symlink()]
    assert store.record(spec.key).accuracy == 0.7


def test_a_lock_is_never_a_link_and_a_pipe_in_its_place_keeps_nobody_waiting(tmp_path, victim):
    store = Store(tmp_path)
    (tmp_path / f"{KEY}.lock").symlink_to(victim)
    assert store.progress(KEY) is None
    with pytest.raises(BadFile, match="The store cannot be written"):
        store.lock(KEY)
    assert victim.read_text() == "precious"
    (tmp_path / f"{KEY}.lock").unlink()
    os.mkfifo(tmp_path / f"{KEY}.lock")
    with at_most(20):
        assert store.progress(KEY) is None


def test_links_in_a_circle_and_devices_are_damaged_records_and_failures(tmp_path):
    store = Store(tmp_path / "store", [tmp_path / "store"])
    store.place(KEY).mkdir(parents=True)
    (store.place(KEY) / "record.json").symlink_to("record.json")
    assert "Too many levels of symbolic links" in store.damage(KEY)
    assert store.ended(KEY) is RunState.MISSING
    (store.folder / f"{KEY}.failed.json").symlink_to("/dev/zero")
    failure = store.failure(KEY)
    assert failure is not None
    assert "is not a valid failure" in failure.error


def test_a_device_without_end_is_not_linted(capsys):
    assert run(["lint", "/dev/zero"]) == 2
    assert "/dev/zero has more than 268,435,456 bytes" in capsys.readouterr().out


def test_a_packed_torch_file_is_refused_before_it_is_unpacked(tmp_path):
    torch.save({"weight": torch.zeros(2**20)}, tmp_path / "plain.pt")
    assert read_weights(tmp_path / "plain.pt")["weight"].shape == (2**20,)
    packed = tmp_path / "packed.pt"
    with (
        zipfile.ZipFile(tmp_path / "plain.pt") as plain,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in plain.namelist():
            archive.writestr(name, plain.read(name))
    assert packed.stat().st_size < 10_000
    with pytest.raises(BadFile, match="is a compressed archive, which torch does not write"):
        read_weights(packed)


def test_an_empty_study_runs_nothing(tmp_path, capsys):
    (tmp_path / "study.toml").write_text("# nothing\n")
    assert run(["study", "run", str(tmp_path / "study.toml")]) == 2
    assert "declares nothing" in capsys.readouterr().err


def test_a_table_of_very_many_columns_ends_with_a_message(tmp_path, capsys):
    (tmp_path / "wide.csv").write_text(",".join(f"c{k}" for k in range(100_000)) + "\n" + ",".join("1" * 100_000))
    with at_most(20):
        assert run(["partial-audit", str(tmp_path / "wide.csv")]) == 2
    said = capsys.readouterr().err
    assert "the field accuracy was not found" in said
    assert len(said) < 10_000
