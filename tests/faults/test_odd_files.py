"""Pipes, devices and archives that unpack to anything, in place of the files that a command expects."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
import torch
from tests.faults.test_fuzzed_commands import at_most

from creditscope.cli import run
from creditscope.errors import BadFile
from creditscope.reading import read_bytes
from creditscope.study.store import Store
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
