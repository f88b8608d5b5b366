"""The time left comes from what runs of the same kind took, and asking for it imports no torch."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.study.made import record, write_study

from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.failure import Failure
from creditscope.study.plan import plan
from creditscope.study.status import Pace, duration, kind_of, study_status
from creditscope.study.store import RunState, Store

PROBE = """
import sys
from creditscope.cli import run
code = run(sys.argv[1:])
print(code, [name for name in ("torch", "scipy", "ray", "lightning", "altair") if name in sys.modules])
"""


@pytest.mark.parametrize(("seconds", "words"), [(3.4, "3 s"), (89, "89 s"), (600, "10 min"), (7500, "2 h 05 min")])
def test_durations_read_well(seconds, words):
    assert duration(seconds) == words


def test_runs_take_as_long_as_others_of_their_kind_and_unknown_kinds_as_the_middle_of_all():
    pace = Pace()
    slow, fast = RunSpec(method="ep", epochs=10), RunSpec(method="bp", epochs=10)
    assert pace.total({kind_of(fast): 10}) is None
    pace.learn(slow, 100)
    pace.learn(fast, 10)
    assert pace.total({kind_of(slow): 5}) == 50
    assert pace.total({kind_of(fast): 10}) == 10
    assert pace.total({kind_of(RunSpec(method="dfa")): 10}) == 55
    assert pace.total({kind_of(slow): 10, kind_of(fast): 10}) == 110
    assert pace.total({}) == 0


def test_a_study_half_done_has_half_its_time_left(tmp_path):
    runs = plan(Study.parse("[fixed]\nepochs = 1\n[grid]\nseed = [1, 2, 3, 4]"))
    store = Store(tmp_path)
    for key in list(runs)[:2]:
        store.commit(key, b"", record(runs[key]))
    found = study_status(runs, store)
    assert found.counts == {RunState.DONE: 2, RunState.RUNNING: 0, RunState.FAILED: 0, RunState.MISSING: 2}
    assert found.seconds_left == 4.0


def test_status_of_a_study_that_was_expanded_before_imports_neither_torch_nor_scipy(tmp_path):
    study, store = write_study(tmp_path), tmp_path / "store"
    store.mkdir()
    plan(Study.read(study), store=store)
    command = [sys.executable, "-c", PROBE, "study", "status", str(study), "--store", str(store)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.splitlines()[-1] == "0 []"
    assert "12 runs: 0 done, 0 running, 0 failed, 12 missing" in answer.stdout


def test_a_study_on_the_cpu_with_nothing_to_run_imports_no_torch(tmp_path):
    study, store = write_study(tmp_path), Store(tmp_path / "store")
    store.prepare()
    for key, spec in plan(Study.read(study), store=store.folder).items():
        store.fail(Failure(key=key, spec=spec.model_dump(), error="no", traceback="no"))
    command = [sys.executable, "-c", PROBE, "study", "run", str(study), "--store", str(store.folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.splitlines()[-1] == "1 []"


def test_the_report_of_a_study_that_was_expanded_before_imports_no_torch(tmp_path):
    study, store = write_study(tmp_path), Store(tmp_path / "store")
    store.prepare()
    for key, spec in plan(Study.read(study), store=store.folder).items():
        store.commit(key, b"", record(spec))
    command = [sys.executable, "-c", PROBE, "study", "report", str(study), "--store", str(store.folder)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.splitlines()[-1] in ("0 []", "0 ['scipy']")
    assert "bp, frozen" in answer.stdout
