"""Small studies, records that nobody trained, and an engine that needs no process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.engines.engine import Engine, EpochDone, Event, RunEnded
from creditscope.study.engines.job import Job, RunError, RunResult

TWELVE = """
name = "twelve"
controls = ["frozen"]
[fixed]
network = "resmlp"
"network.d" = 16
"network.depth" = 2
data = "mnist1d"
epochs = {epochs}
[grid]
method = ["bp", "dfa"]
seed = [1, 2, 3]
"""


def write_study(folder: Path, text: str = TWELVE, epochs: int = 2) -> Path:
    path = folder / "study.toml"
    path.write_text(text.replace("{epochs}", str(epochs)))
    return path


def record(spec: RunSpec, accuracy: float = 0.5, **fields: Any) -> RunRecord:
    """The record of a run that was never trained."""
    row = HistoryRow(
        epoch=0, loss=1.0, accuracy=accuracy, hidden_norms=(1.0, 2.0), gradient_norms=(0.1, 0.2), d1=2.0, d2=1e-3
    )
    return RunRecord(
        key=fields.pop("key", "") or spec.key,
        spec=spec.model_dump(mode="json"),
        versions={"creditscope": "0"},
        device="cpu",
        test_images=1000,
        history=(row,),
        timings={"seconds": 2.0},
        **fields,
    )


class PretendEngine(Engine):
    """Ends every job at the next look; `answer` says how."""

    def __init__(self, answer: Callable[[Job], RunResult] | None = None, workers: int = 2) -> None:
        self.answer = answer or (lambda job: RunResult(b"weights", record(job.spec).to_json()))
        self.jobs: list[Job] = []
        self.stopped = False
        self._workers, self._now = workers, list[Job]()

    @property
    def workers(self) -> int:
        return self._workers

    @property
    def free(self) -> int:
        return self._workers - len(self._now)

    def start(self, job: Job) -> None:
        self.jobs.append(job)
        self._now.append(job)

    def events(self, seconds: float) -> list[Event]:
        now, self._now = self._now, []
        return [event for job in now for event in (EpochDone(job.key, 1), RunEnded(job.key, self.answer(job)))]

    def stop(self) -> None:
        self.stopped = True


def failing(error: str = "ValueError: no") -> Callable[[Job], RunResult]:
    return lambda job: RunResult(error=RunError(error, f"Traceback\n{error}"))


def creditscope(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """The program in a process of its own."""
    command = [sys.executable, "-m", "creditscope", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen(command, text=True, env=environment, preexec_fn=_listen_to_ctrl_c, **pipes)


def _listen_to_ctrl_c() -> None:
    """A process of a background job ignores Ctrl-C, and so would those that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def finished(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """The program, waited for."""
    process = creditscope(*arguments)
    out, errors = process.communicate(timeout=300)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def without_times(folder: Path) -> dict[str, Any]:
    """Every record of a store but for times and the commit of the source, and the bytes of its weights."""
    return {path.parent.name: (_timeless(path), _weights(path.parent)) for path in sorted(folder.glob("*/record.json"))}


def _timeless(path: Path) -> Any:
    found = json.loads(path.read_text())
    for name in ("checksum", "timings", "commit"):
        found.pop(name)
    if found["report"] is not None:
        found["report"].pop("content_hash")  # of the time of the audit too
        for name in ("created", "commit"):
            found["report"]["provenance"].pop(name)
    return found


def _weights(folder: Path) -> bytes:
    return (folder / "weights.safetensors").read_bytes()


def stamps(store: Path) -> dict[str, tuple[int, int]]:
    """Which file every record is, and when it was written: a run that is done again has another."""
    return {path.parent.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in store.glob("*/record.json")}


def children(process: int) -> Sequence[int]:
    """The processes that a process started, on Linux."""
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(number) for number in path.read_text().split()] if path.exists() else []
