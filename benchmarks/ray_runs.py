"""1,000 runs that do nothing through the Ray engine: how many a second, and does the driver's memory grow?

The cluster has two cores of this machine and binds the loopback address. *Engine*: jobs are started and their ends
collected. *Study*: the driver as well, which locks each run, parses and stores its record, and tells the board.
Processor time is that of the driver, the workers and Ray's own processes: on a busy machine the runs a second say
nothing, and 2 cores / processor time per run is how many there would be on two idle ones, at most.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from creditscope.records.run import HistoryRow, RunRecord
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.engine import EpochDone
from creditscope.study.engines.job import Job, RunResult
from creditscope.study.engines.ray import RayEngine
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # binds 127.0.0.1
    "RAY_worker_niceness": "0",  # else workers yield to whatever else this machine does
    "OMP_NUM_THREADS": "1",
}
STUDY = "[fixed]\nepochs = 1\n[grid]\nseed = {seeds}"
WANTED = 50  # runs a second


def nothing(job: Job, on_epoch: Callable[[HistoryRow], None]) -> RunResult:
    """One epoch without training, and the record of it."""
    row = HistoryRow(epoch=0, loss=1.0, accuracy=0.5, hidden_norms=(1.0,), gradient_norms=(1.0,), d1=1.0, d2=1.0)
    on_epoch(row)
    record = RunRecord(
        key=job.key,
        spec=job.spec.model_dump(mode="json"),
        versions={},
        device="cpu",
        test_images=1,
        history=(row,),
        timings={"seconds": 0.0},
    )
    return RunResult(b"weights", record.to_json())


def resident() -> float:
    """MB that this process occupies."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def processor() -> float:
    """Seconds of the processor that this process and all that it started have taken."""
    parents, taken, clock = {}, {}, os.sysconf("SC_CLK_TCK")
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(place.name)], taken[int(place.name)] = int(fields[1]), sum(map(int, fields[11:15])) / clock
    ours = {os.getpid()}
    while more := {child for child, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(taken[process] for process in ours)


def engine_alone(address: str, runs: Plan) -> None:
    """Start every job and wait for its end."""
    waiting, ended, sizes = list(runs.items()), 0, {}
    with RayEngine(address, execute=nothing) as engine:
        started, before = time.perf_counter(), processor()
        while ended < len(runs):
            while waiting and engine.free > 0:
                key, spec = waiting.pop()
                engine.start(Job(key, spec))
            ended += sum(not isinstance(event, EpochDone) for event in engine.events(0.2))
            sizes.setdefault(5 * ended // len(runs), resident())
        told("engine", len(runs), time.perf_counter() - started, processor() - before, sizes[1])


class Watch(Board):
    """Notes the driver's memory at every fifth of the study."""

    sizes: dict[int, float]

    def line(self, text: str) -> None:
        """Every line is the end of a run, but for the first."""
        super().line(text)
        self.sizes.setdefault(5 * self.ended // len(self._runs), resident())


def whole_study(address: str, runs: Plan, folder: Path) -> None:
    """The same as a study, with its store."""
    board = Watch(io.StringIO())
    board.sizes = {}
    with RayEngine(address, execute=nothing) as engine:
        started, before = time.perf_counter(), processor()
        summary = run_study(runs, Store(folder), engine, board, StudyOptions())
        told("study", len(runs), time.perf_counter() - started, processor() - before, board.sizes[1])
    assert len(summary.done) == len(runs)


def told(what: str, runs: int, seconds: float, worked: float, size: float) -> None:
    """Print one line."""
    pace, cost = (
        f"{runs / seconds:.0f} runs a second (wanted: {WANTED})",
        f"{1e3 * worked / runs:.1f} ms of the processor",
    )
    idle = f"at most {2 * runs / worked:.0f} a second on two idle cores"
    print(f"  {what:7} {pace}, {cost} each: {idle}")
    print(f"          the driver has {size:.0f} MB after a fifth of them, {resident():.0f} MB after all", flush=True)


if __name__ == "__main__":
    os.environ.update(QUIET)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    assert cluster.address.startswith("127.0.0.1:")
    try:
        count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
        runs = plan(Study.parse(STUDY.format(seeds=list(range(count)))))
        print(f"{len(runs):,} runs that do nothing, on two cores")
        for _ in range(2):  # the first time Ray starts its workers
            engine_alone(cluster.address, runs)
        with tempfile.TemporaryDirectory() as name:
            whole_study(cluster.address, runs, Path(name))
    finally:
        cluster.shutdown()
