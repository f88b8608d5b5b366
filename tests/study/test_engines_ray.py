"""On a Ray cluster a study ends with the same numbers as on this machine, even when a node goes."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import time

import pytest
from tests.study.made import TWELVE, creditscope, without_times, write_study

from creditscope.errors import CreditscopeError, InvalidInput
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.local import LocalEngine
from creditscope.study.engines.mailbox import Mailbox
from creditscope.study.engines.ray import FOLDER, ClusterLost, NoCluster, RayEngine, sweep
from creditscope.study.plan import plan
from creditscope.study.selection import only
from creditscope.study.store import Store

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # binds 127.0.0.1
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "OMP_NUM_THREADS": "1",
}


def wait_for(condition, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


def runs(epochs: int):
    return plan(Study.parse(TWELVE.replace("{epochs}", str(epochs))))


def test_without_ray_the_way_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(NoCluster, match=r"pip install 'creditscope\[ray\]'"):
        RayEngine("auto")


def test_the_mailbox_hands_over_what_is_new_once_and_keeps_the_latest_snapshot():
    mailbox = Mailbox()
    mailbox.keep("a", b"old")
    assert mailbox.collect() == ({}, {})
    mailbox.report("a", 1)
    mailbox.report("a", 2)
    mailbox.keep("a", b"new", new=True)
    assert mailbox.collect() == ({"a": 2}, {"a": b"new"})
    assert mailbox.collect() == ({}, {})
    assert mailbox.latest("a") == b"new"
    mailbox.report("a", 3)
    assert mailbox.collect(["a"]) == ({}, {})  # it has ended
    assert mailbox.latest("a") is None


def test_folders_of_killed_tasks_are_removed_and_those_of_running_ones_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-S", "-c", ""])
    dead.wait()
    names = [f"{FOLDER}{dead.pid}-a", f"{FOLDER}{os.getpid()}-b", f"{FOLDER}x-c", "other"]
    for name in names:
        (tmp_path / name).mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[1:])


@pytest.fixture
def cluster(monkeypatch):
    """A head without cores and two nodes with one each, on this machine, on loopback, without a dashboard."""
    for name, value in QUIET.items():
        monkeypatch.setenv(name, value)
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    made.first, made.second = made.add_node(num_cpus=1), made.add_node(num_cpus=1)
    made.wait_for_nodes()
    assert made.address.startswith("127.0.0.1:")
    yield made
    made.shutdown()


def on_ray(test):
    for mark in (pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("default")):
        test = mark(test)
    return test


@on_ray
def test_a_study_on_two_nodes_of_which_one_goes_half_way_ends_complete_with_the_same_numbers(tmp_path, cluster):
    study = runs(epochs=10)
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")

    def remove_half_way() -> None:
        while len(list(there.folder.glob("*/record.json"))) < 6:
            time.sleep(0.05)
        cluster.remove_node(cluster.first)

    remover = threading.Thread(target=remove_half_way)
    remover.start()
    with RayEngine(cluster.address) as engine:
        assert engine.workers == 2
        summary = run_study(study, there, engine, Board(io.StringIO()), StudyOptions(snapshot_seconds=0.5))
    remover.join()
    assert sorted(summary.done) == sorted(study)
    with LocalEngine(1) as local:
        run_study(study, here, local, Board(io.StringIO()), StudyOptions(snapshot_seconds=0.5))
    assert without_times(there.folder) == without_times(here.folder)
    assert not list(there.folder.glob("*.snapshot"))


@on_ray
def test_a_run_whose_node_goes_continues_from_the_snapshot_that_the_driver_has(tmp_path, cluster):
    study = only(runs(epochs=120), {"method": ["dfa"], "seed": ["1", "2"], "control": ["none"]})
    store = Store(tmp_path / "store")
    after: dict[str, list[int]] = {key: [] for key in study}
    moved = threading.Event()

    class Watch(Board):
        def epoch(self, key: str, done: int) -> None:
            if moved.is_set():
                after[key].append(done)

    def remove() -> None:
        wait_for(lambda: all(store.snapshot(key).exists() for key in study))
        cluster.remove_node(cluster.first)
        moved.set()

    remover = threading.Thread(target=remove)
    remover.start()
    with RayEngine(cluster.address) as engine:
        summary = run_study(study, store, engine, Watch(io.StringIO()), StudyOptions(snapshot_seconds=0.5))
    remover.join()
    assert sorted(summary.done) == sorted(study)
    assert all(len(store.record(key).history) == 120 for key in study)
    assert min(min(epochs) for epochs in after.values() if epochs) > 1  # neither began anew


@on_ray
def test_a_mailbox_that_is_killed_comes_back_or_ends_the_study_with_a_clear_error(tmp_path, cluster, monkeypatch):
    import ray

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    study = only(runs(epochs=40), {"method": ["dfa"], "seed": ["1"], "control": ["none"]})
    with RayEngine(cluster.address) as engine:
        ray.kill(engine._mailbox, no_restart=False)
        summary = run_study(study, Store(tmp_path / "a"), engine, Board(io.StringIO()), StudyOptions())
        assert summary.done == list(study)
        ray.kill(engine._mailbox)
        with pytest.raises(ClusterLost, match="stopped answering"):
            run_study(study, Store(tmp_path / "b"), engine, Board(io.StringIO()), StudyOptions())
    assert not list((tmp_path / "b").glob("*.failed.json"))
    assert not list(tmp_path.glob(f"{FOLDER}*"))


@on_ray
def test_tasks_end_with_a_driver_that_is_killed(tmp_path, cluster):
    import ray

    study, store = write_study(tmp_path, epochs=5000), tmp_path / "store"
    driver = creditscope("study", "run", study, "--store", store, "--ray", cluster.address, "--snapshot-every", "0")
    wait_for(lambda: list(store.glob("*.snapshot")))
    driver.kill()
    driver.communicate()
    ray.init(address=cluster.address, log_to_driver=False)
    try:
        wait_for(lambda: ray.available_resources().get("CPU") == 2, 60)
    finally:
        ray.shutdown()


@on_ray
def test_a_cluster_without_room_or_without_address_is_refused(cluster):
    with pytest.raises(InvalidInput, match="one needs 64 CPUs and 0 GPUs"):
        RayEngine(cluster.address, cpus=64)
    with pytest.raises(CreditscopeError, match="There is no Ray cluster at 'nonsense'"):
        RayEngine("nonsense")
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
