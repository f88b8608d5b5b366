"""A disk that is full or cannot be written stops a study with a clear word, and nothing that was done is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.study.made import finished, record, write_study
from tests.study.test_tables import HEALTHY, report

from creditscope.cli import run
from creditscope.study.declaration import Study
from creditscope.study.plan import plan
from creditscope.study.store import Store

SMALL = 40_000  # bytes: a record fits, weights do not


def small_files() -> None:
    """From here on the kernel refuses to let any file grow beyond SMALL bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))


def run_on_a_small_disk(study: Path, store: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "creditscope", "study", "run", str(study), "--store", str(store), "--workers", "1"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, preexec_fn=small_files)


def partly_done(study: Path, store: Store) -> set[str]:
    """Three runs of a study, done."""
    runs = plan(Study.read(study))
    done = list(runs)[:3]
    for key in done:
        store.commit(key, b"weights", record(runs[key], report=report(HEALTHY)))
    return set(done)


def test_a_disk_that_fills_up_stops_the_study_and_loses_nothing(tmp_path):
    study, store = write_study(tmp_path, epochs=1), Store(tmp_path / "store")
    text = study.read_text().replace('"network.d" = 16', '"network.d" = 64')
    study.write_text(text)
    done = partly_done(study, store)
    answer = run_on_a_small_disk(study, store.folder)
    assert answer.returncode == 74, answer.stderr
    assert "cannot be written: File too large" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert {path.parent.name for path in store.folder.glob("*/record.json")} == done
    assert not list(store.folder.glob("*.failed.json"))
    assert not [path for path in store.folder.iterdir() if path.suffix in (".part", ".lock")]


@pytest.mark.slow
def test_with_room_again_the_same_command_ends_the_study(tmp_path):
    study, store = write_study(tmp_path, epochs=1), Store(tmp_path / "store")
    text = study.read_text().replace('"network.d" = 16', '"network.d" = 64')
    study.write_text(text.replace("seed = [1, 2, 3]", "seed = [1]"))
    assert run_on_a_small_disk(study, store.folder).returncode == 74
    assert finished("study", "run", study, "--store", store.folder).returncode == 0
    assert len(list(store.folder.glob("*/record.json"))) == 4


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_store_without_permission_to_write_is_refused(tmp_path):
    study, store = write_study(tmp_path), tmp_path / "store"
    store.mkdir()
    store.chmod(0o500)
    answer = finished("study", "run", study, "--store", store)
    assert answer.returncode == 2
    assert "The store cannot be written" in answer.stderr


def test_a_store_on_a_file_system_that_takes_no_file_is_refused(tmp_path, capsys):
    assert run(["study", "run", str(write_study(tmp_path)), "--store", "/proc/self/fdinfo/store"]) == 2
    assert "The store /proc/self/fdinfo/store cannot be made" in capsys.readouterr().err
