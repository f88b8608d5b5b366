"""The local engine: one worker process per job on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe, wait
from typing import IO

from creditscope.machine import OUT_OF_MEMORY
from creditscope.study.engines.engine import Engine, EpochDone, Event, RunEnded, cores
from creditscope.study.engines.job import Job, RunError, RunResult

TAIL = 2000  # characters kept of what a dead worker wrote to standard error


class LocalEngine(Engine):
    """Processes of one thread each, kept for the next job: importing torch takes longer than a short run."""

    stacks = True

    def __init__(self, workers: int | None = None) -> None:
        self._workers = workers or cores()
        self._idle: list[_Worker] = []
        self._busy: dict[Connection, _Worker] = {}

    @property
    def workers(self) -> int:
        """One per core unless another number was given."""
        return self._workers

    @property
    def free(self) -> int:
        """Workers without a job."""
        return self._workers - len(self._busy)

    def expect(self, jobs: int) -> None:
        """Start the workers: they import torch while the driver loads the data."""
        self._idle += [_Worker() for _ in range(min(jobs, self.free) - len(self._idle))]

    def start(self, job: Job) -> None:
        """Give the job to an idle worker, or to a new one."""
        worker = self._idle.pop() if self._idle else _Worker()
        worker.keys = [job.key, *(one.key for one in job.beside)]
        self._busy[worker.connection] = worker
        with suppress(BrokenPipeError):  # the worker has died: `events` reports it
            worker.connection.send(job)

    def events(self, seconds: float) -> list[Event]:
        """Epochs and ends from every worker that sent one."""
        if not self._busy:
            return []
        ready = [c for c in wait(list(self._busy), seconds) if isinstance(c, Connection)]
        return [event for connection in ready for event in self._received(connection)]

    def _received(self, connection: Connection) -> list[Event]:
        worker = self._busy[connection]
        try:
            key, message = connection.recv()
        except (EOFError, OSError):  # also an end in the middle of a message
            del self._busy[connection]
            reason = worker.exit_reason()
            return [RunEnded(key, RunResult(error=reason)) for key in worker.keys]
        if isinstance(message, int):
            return [EpochDone(key, message)]
        worker.keys.remove(key)
        if not worker.keys:
            del self._busy[connection]
            self._idle.append(worker)
        return [RunEnded(key, message)]

    def stop(self) -> None:
        """Kill the workers; they hold no lock and leave no half-written file."""
        workers = [*self._busy.values(), *self._idle]
        self._busy, self._idle = {}, []
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.wait()
            worker.connection.close()
            worker.errors.close()


class _Worker:
    """One process, the pipe to it, and its standard error."""

    def __init__(self) -> None:
        self.keys: list[str] = []  # of the runs that it has not ended
        self.connection, theirs = Pipe()
        self.errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by `stop`
        self.process = subprocess.Popen(
            # -P: a torch.py in the current folder must not stand in for torch
            [sys.executable, "-P", "-m", "creditscope.study.engines.worker", str(theirs.fileno()), str(os.getpid())],
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self.errors,
        )
        theirs.close()

    def exit_reason(self) -> RunError:
        """Why the process ended: its exit code or signal, and the end of its standard error."""
        code = self.process.wait()
        self.errors.seek(0)
        text = self.errors.read().decode(errors="replace")[-TAIL:]
        self.connection.close()
        self.errors.close()
        cause = f"signal {-code}" if code < 0 else f"exit code {code}"
        starved = code == -signal.SIGKILL or OUT_OF_MEMORY.search(text) is not None
        hint = " The machine ran out of memory, or somebody ended the process." if starved else ""
        return RunError(
            f"The worker process ended with {cause}.{hint}",
            text or "It wrote nothing to standard error.",
            lacking="memory" if starved else "",
        )
