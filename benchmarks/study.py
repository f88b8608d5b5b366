"""Studies: a store of 1,000 finished runs must answer at once, and two workers must be nearly twice as fast as one.

Wall-clock seconds of the program itself, interpreter and imports included. The second part needs two idle cores: the
load of the machine is printed beside it, and a ratio on a busy machine says nothing.
"""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines.job import Job, attempt
from creditscope.study.engines.local import LocalEngine
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store

THOUSAND = f"""
controls = ["frozen"]
[fixed]
"network.d" = 16
[grid]
method = ["bp", "dfa"]
seed = {list(range(250))}
"""
TWELVE = """
[fixed]
"network.d" = 64
epochs = 20
[grid]
seed = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
"""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def fill(store: Store, runs: Plan) -> None:
    """A store as it is after the study: every record with a history of 100 epochs and a whole report."""
    spec = RunSpec(network_options={"d": 16}, epochs=1)
    model = RunRecord.model_validate_json(attempt(Job(spec.key, spec), lambda row: None).record)
    (row,) = model.history
    history = tuple(HistoryRow.model_validate({**row.model_dump(), "epoch": epoch}) for epoch in range(100))
    for key, run in runs.items():
        fields = {"key": key, "spec": run.model_dump(mode="json"), "history": history}
        store.commit(key, b"", model.model_copy(update=fields))


def seconds(*arguments: str) -> float:
    """How long the program takes."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "creditscope", *arguments], check=True, capture_output=True, env=ENVIRONMENT)
    return time.perf_counter() - started


def thousand(folder: Path) -> None:
    """A store with 1,000 finished runs."""
    file, store = folder / "study.toml", Store(folder / "store")
    file.write_text(THOUSAND)
    store.prepare()
    runs = plan(Study.read(file), store=store.folder)
    fill(store, runs)
    size = sum(path.stat().st_size for path in store.folder.glob("*/record.json")) / 1e6
    print(f"a store of {len(runs):,} finished runs, {size:.0f} MB of records")
    place = ("--store", str(store.folder))
    status = min(seconds("study", "status", str(file), *place) for _ in range(3))
    print(f"  status                               {status:6.2f} s   (wanted: below 2)")
    known = min(seconds("study", "run", str(file), *place) for _ in range(2))
    print(f"  resume, expanded before              {known:6.2f} s   (wanted: below 5)")
    for path in (store.folder / "expanded").iterdir():
        path.unlink()
    fresh = seconds("study", "run", str(file), *place)
    print(f"  expand, check every run, and resume  {fresh:6.2f} s   (wanted: below 5)")
    print(f"  report: 1,000 records read, judged   {seconds('study', 'report', str(file), *place):6.2f} s")


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
        thousand(Path(name))
        twelve(Path(name))
