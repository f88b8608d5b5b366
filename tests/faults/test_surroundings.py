"""A study ends the same in a hostile folder, under optimised Python, and where the environment says odd things."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.study.made import without_times

from creditscope.cli import run

STUDY = '[fixed]\nmethod = "dfa"\n"network.d" = 4\n"network.depth" = 1\nepochs = 1\nbatch_size = 1000\n'
PLANTED = "from pathlib import Path\nPath(__file__).with_name('it_ran').touch()\nraise SystemExit(0)\n"
ODD = {
    "COLUMNS": "1000000000",
    "LC_ALL": "C",
    "PYTHONHASHSEED": "7",
    "PYTHONUTF8": "0",
    "HOME": "/nowhere",
    "TERM": "x",
}


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study in a folder in which modules of our dependencies are planted."""
    for name in ("torch", "numpy", "scipy", "typer", "pydantic", "safetensors", "creditscope_papers"):
        (tmp_path / f"{name}.py").write_text(PLANTED)
    path = tmp_path / "größe 中.toml"
    path.write_text(STUDY)
    return path


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python in the folder, under a umask of 077 and an odd environment, with our own source on its path."""
    environment = {**os.environ, **ODD, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False,
        timeout=120, umask=0o077, errors="surrogateescape",
    )  # fmt: skip


def test_no_module_of_the_current_folder_is_imported(study):
    done = python(study.parent, "-m", "creditscope", "list", "methods")
    assert (done.returncode, done.stderr) == (0, "")
    assert "dfa" in done.stdout
    assert not (study.parent / "it_ran").exists()


@pytest.mark.slow
def test_a_study_under_optimised_python_ends_with_the_same_bits(study, capsys):
    line = ["study", "run", study.name, "--store", "optimised", "--workers", "1"]
    done = python(study.parent, "-O", "-m", "creditscope", *line)
    assert done.returncode == 0, done.stderr
    assert "[1/1] done" in done.stderr
    assert not (study.parent / "it_ran").exists()
    assert run(["study", "run", str(study), "--store", str(study.parent / "plain"), "--workers", "1"]) == 0
    assert without_times(study.parent / "optimised") == without_times(study.parent / "plain")
    assert len(without_times(study.parent / "plain")) == 1
