"""A study that is killed, interrupted or run twice at a time ends as if nothing had happened."""

from __future__ import annotations

import random
import re
import signal
import time
from pathlib import Path

import pytest
from tests.study.made import TWELVE, children, creditscope, finished, stamps, without_times, write_study

EIGHT = TWELVE.replace("seed = [1, 2, 3]", "seed = [1, 2]")


def command(study: Path, store: Path, workers: int = 2) -> list[str | Path]:
    return ["study", "run", study, "--store", store, "--workers", str(workers), "--snapshot-every", "0"]


def wait_for(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def gone(process: int) -> bool:
    """Whether a process has ended; a zombie that nobody waits for has."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.slow
def test_a_study_killed_at_three_random_moments_ends_with_the_same_bits_and_does_no_run_twice(tmp_path):
    study, whole, broken = write_study(tmp_path, EIGHT, epochs=4), tmp_path / "whole", tmp_path / "broken"
    began = time.monotonic()
    assert finished(*command(study, whole)).returncode == 0
    took = time.monotonic() - began
    draw, seen = random.Random(6), {}
    for _ in range(3):
        process = creditscope(*command(study, broken))
        time.sleep(draw.uniform(0.2, 0.6) * took)
        process.kill()
        process.communicate()
        now = stamps(broken)
        assert seen.items() <= now.items()  # what was done stays as it is
        seen = now
    assert finished(*command(study, broken)).returncode == 0
    assert seen.items() <= stamps(broken).items()
    assert len(without_times(whole)) == 8
    assert without_times(broken) == without_times(whole)


@pytest.mark.slow
def test_two_processes_on_one_store_share_the_runs_and_do_none_twice(tmp_path):
    study, store = write_study(tmp_path, EIGHT), tmp_path / "store"
    pair = [creditscope(*command(study, store)) for _ in range(2)]
    outputs = [process.communicate(timeout=300) for process in pair]
    assert [process.returncode for process in pair] == [0, 0]
    done = [set(re.findall(r"\] done +(\w{16})", errors)) for _, errors in outputs]
    assert not done[0] & done[1]
    assert len(done[0] | done[1]) == 8
    assert {path.name for path in store.iterdir()} - set(stamps(store)) == {"expanded"}


@pytest.mark.slow
def test_workers_end_with_a_driver_that_is_killed_and_its_locks_are_free(tmp_path):
    study, store = write_study(tmp_path, epochs=200), tmp_path / "store"
    process = creditscope(*command(study, store))
    wait_for(lambda: len(list(store.glob("*.snapshot"))) == 2)
    workers = children(process.pid)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    wait_for(lambda: all(gone(worker) for worker in workers), 5)
    answer = finished("study", "status", study, "--store", store)
    assert "0 done, 0 running, 0 failed, 12 missing" in answer.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_stops_within_seconds_keeps_what_is_done_and_says_how_to_resume(tmp_path, number):
    study, store = write_study(tmp_path, epochs=500), tmp_path / "store"
    process = creditscope(*command(study, store, workers=1))
    wait_for(lambda: list(store.glob("*.snapshot")))
    began = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode == 130
    assert "Stopped: 0 of 12 runs done and kept. To resume, run the same command again." in errors
    assert not list(store.glob("*.lock"))
    assert list(store.glob("*.snapshot"))


@pytest.mark.slow
def test_an_interrupted_run_resumes_from_its_snapshot(tmp_path):
    text = '[fixed]\n"network.d" = 16\n"network.depth" = 1\nmethod = "dfa"\nepochs = 40\n'
    study, store, whole = write_study(tmp_path, text), tmp_path / "store", tmp_path / "whole"
    process = creditscope(*command(study, store))
    wait_for(lambda: list(store.glob("*.snapshot")))
    process.kill()
    process.communicate()
    assert not list(store.glob("*/record.json"))
    assert finished(*command(study, store)).returncode == 0
    assert finished(*command(study, whole)).returncode == 0
    assert without_times(store) == without_times(whole)
    assert not list(store.glob("*.snapshot"))
