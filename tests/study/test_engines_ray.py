"""On a Ray cluster a study ends with the same numbers as on this machine, even when a node goes."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.study.made import children, creditscope, stamps, without_times, write_study

from creditscope.errors import CreditscopeError, DamagedFile, InvalidInput
from creditscope.machine import alive
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.job import attempt
from creditscope.study.engines.local import LocalEngine
from creditscope.study.engines.mailbox import Mailbox
from creditscope.study.engines.ray import FOLDER, ClusterLost, NoCluster, RayEngine, sweep
from creditscope.study.plan import plan
from creditscope.study.selection import only
from creditscope.study.store import Store
from creditscope.training.snapshots import read_snapshot

FOUR = """
[fixed]
"network.d" = 16
"network.depth" = 2
epochs = 60
batch_size = 1000
[grid]
method = ["bp", "dfa"]
seed = [1, 2]
"""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # binds 127.0.0.1
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_worker_niceness": "0",  # else other work on this machine starves the tasks
    "OMP_NUM_THREADS": "1",
}


def wait_for(condition, seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


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


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """A head without cores and two nodes with one each, on this machine, on loopback, without a dashboard."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in QUIET.items():
            patch.setenv(name, value)
        patch.setenv("RAY_TMPDIR", tempfile.gettempdir())  # paths of sockets must be short
        patch.setenv("TMPDIR", str(tmp_path_factory.mktemp("tasks")))  # of the tasks
        from ray.cluster_utils import Cluster

        made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
        made.add_node(num_cpus=1)
        made.add_node(num_cpus=1)
        made.tasks = Path(os.environ["TMPDIR"])
        made.wait_for_nodes()
        assert made.address.startswith("127.0.0.1:")
        yield made
        made.shutdown()


def on_ray(test):
    for mark in (pytest.mark.ray, pytest.mark.slow, pytest.mark.filterwarnings("default")):
        test = mark(test)
    return test


def slowly(seconds: float):
    """Executes a run as ever, with a pause after every epoch in which it can be killed; sent to the tasks by value."""

    def execute(job, on_epoch):
        return attempt(job, lambda row: (on_epoch(row), time.sleep(seconds)))

    return execute


class Watch(Board):
    """Notes every epoch that a run reports."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())
        self.epochs: list[tuple[str, int]] = []

    def epoch(self, key: str, done: int) -> None:
        self.epochs.append((key, done))
        super().epoch(key, done)


def epochs_kept(store: Store, keys: Iterable[str]) -> dict[str, int]:
    """How many epochs the snapshot of each run under way holds."""
    kept = {}
    for key in keys:
        with suppress(DamagedFile):  # there is none
            kept[key] = len(read_snapshot(store.snapshot(key)).history)
    return kept


class Killer(threading.Thread):
    """Kills the process of a task, and later the node of one, when every run under way has a snapshot."""

    def __init__(self, cluster, store: Store, watch: Watch) -> None:
        super().__init__(daemon=True)
        self.cluster, self.store, self.watch = cluster, store, watch
        self.kept: list[tuple[int, dict[str, int]]] = []  # by kill: epochs reported before, epochs in snapshots

    def run(self) -> None:
        self._once_all_go_on(lambda task: os.kill(task, signal.SIGKILL))
        self._once_all_go_on(self._remove_node_of)

    def _once_all_go_on(self, kill: Callable[[int], object]) -> None:
        begun = len(self.watch.epochs)
        reported = lambda: {key for key, _ in self.watch.epochs[begun:]}  # noqa: E731
        wait_for(lambda: 0 < len(self._tasks()) == len(epochs_kept(self.store, reported())))
        self.kept.append((len(self.watch.epochs), epochs_kept(self.store, reported())))
        kill(self._tasks()[0])

    def _tasks(self) -> list[int]:
        """The processes of the tasks under way, by their folders."""
        names = [path.name for path in self.cluster.tasks.glob(f"{FOLDER}*")]
        return [task for name in names if alive(task := int(name.removeprefix(FOLDER).partition("-")[0]))]

    def _remove_node_of(self, task: int) -> None:
        for node in list(self.cluster.worker_nodes):
            if task in children(dict(node.live_processes())["raylet"].pid):
                self.cluster.remove_node(node)


@on_ray
def test_a_study_whose_driver_worker_and_node_are_killed_in_turn_ends_with_the_same_bits(tmp_path, cluster):
    import ray

    study = write_study(tmp_path, FOUR)
    runs, here, there = plan(Study.read(study)), Store(tmp_path / "here"), Store(tmp_path / "there")
    arguments = ("--store", there.folder, "--ray", cluster.address, "--snapshot-every", "0")
    driver = creditscope("study", "run", study, *arguments)
    wait_for(lambda: stamps(there.folder) and epochs_kept(there, runs.keys() - stamps(there.folder)))
    driver.kill()
    driver.communicate()
    done, begun = stamps(there.folder), epochs_kept(there, runs)
    with RayEngine(cluster.address, execute=slowly(0.1)) as engine:
        wait_for(lambda: ray.available_resources().get("CPU") == 2)  # tasks end with their driver
        watch = Watch()
        killer = Killer(cluster, there, watch)
        killer.start()
        summary = run_study(runs, there, engine, watch, StudyOptions(snapshot_seconds=0.0))
        killer.join()
    assert len(killer.kept) == 2
    assert len(cluster.worker_nodes) == 1
    assert sorted(summary.reused) == sorted(done)
    assert sorted(summary.done) == sorted(runs.keys() - done)
    assert done.items() <= stamps(there.folder).items()  # what was done is not touched
    for reported, kept in [(0, begun), *killer.kept]:  # no run does an epoch again of which there was a snapshot
        assert all(epoch > kept.get(key, 0) for key, epoch in watch.epochs[reported:])
    with LocalEngine(1) as local:
        run_study(runs, here, local, Board(io.StringIO()), StudyOptions())
    assert without_times(there.folder) == without_times(here.folder)
    assert {path.name for path in there.folder.iterdir()} - set(runs) == {"expanded"}
    assert not list(cluster.tasks.glob(f"{FOLDER}*"))


@on_ray
def test_a_mailbox_that_is_killed_comes_back_or_ends_the_study_with_a_clear_error(tmp_path, cluster):
    import ray

    study = only(plan(Study.parse(FOUR)), {"method": ["dfa"], "seed": ["1"]})
    with RayEngine(cluster.address) as engine:
        ray.kill(engine._mailbox, no_restart=False)
        summary = run_study(study, Store(tmp_path / "a"), engine, Board(io.StringIO()), StudyOptions())
        assert summary.done == list(study)
        ray.kill(engine._mailbox)
        with pytest.raises(ClusterLost, match="stopped answering"):
            run_study(study, Store(tmp_path / "b"), engine, Board(io.StringIO()), StudyOptions())
    assert not list((tmp_path / "b").glob("*.failed.json"))
    wait_for(lambda: not list(cluster.tasks.glob(f"{FOLDER}*")), 20)


@on_ray
def test_a_cluster_without_room_or_without_address_is_refused(cluster):
    with pytest.raises(InvalidInput, match="one needs 64 CPUs and 0 GPUs"):
        RayEngine(cluster.address, cpus=64)
    with pytest.raises(CreditscopeError, match="There is no Ray cluster at 'nonsense'"):
        RayEngine("nonsense")
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
