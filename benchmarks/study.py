"""Studies: two workers must be nearly twice as fast as one.

Wall-clock seconds and processor time. The former need two idle cores: the load is printed beside them, and
their ratio on a busy machine says nothing.
"""

from __future__ import annotations

import io
import os
import resource
import tempfile
import time
from pathlib import Path

from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.local import LocalEngine
from creditscope.study.plan import plan
from creditscope.study.store import Store

TWELVE = """
[fixed]
"network.d" = 64
epochs = 20
[grid]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
"""


def twelve(folder: Path) -> None:
    """The same twelve runs by one worker and by two."""
    runs = plan(Study.parse(TWELVE))
    taken, worked = {}, {}
    for workers in (1, 2):
        started, before = time.perf_counter(), children_seconds()
        with LocalEngine(workers) as engine:
            summary = run_study(runs, Store(folder / str(workers)), engine, Board(io.StringIO()), StudyOptions())
        assert len(summary.done) == 12
        taken[workers], worked[workers] = time.perf_counter() - started, children_seconds() - before
    ratio, free = taken[1] / taken[2], 2 * worked[1] / worked[2]
    print("12 equal runs, one thread each, start of the workers included")
    print(f"  one worker {taken[1]:.1f} s, two workers {taken[2]:.1f} s: {ratio:.2f} times as fast (wanted: 1.7)")
    print(f"  by processor time {worked[1]:.1f} s and {worked[2]:.1f} s: {free:.2f} times as fast on two idle cores")
    print(f"  cores {os.cpu_count()}, load average {os.getloadavg()[0]:.1f}, of which 2 are ours")


def children_seconds() -> float:
    """Processor time of the workers that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        twelve(Path(name))
