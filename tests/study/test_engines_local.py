"""The local engine reports a worker that dies, whatever it was doing."""

from __future__ import annotations

import subprocess
import sys

from creditscope.runs.spec import RunSpec
from creditscope.study.engines import local
from creditscope.study.engines.engine import RunEnded
from creditscope.study.engines.job import Job
from creditscope.study.engines.local import LocalEngine

KILLED_WHILE_SENDING = """
import os, signal, sys
from multiprocessing.connection import Connection
connection = Connection(int(sys.argv[1]))
connection.recv_bytes()
os.write(connection.fileno(), b"\\0\\0\\1\\0" + b"half")  # 256 bytes are announced
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_worker_that_is_killed_while_it_sends_its_result_ends_its_run_and_not_the_study(monkeypatch):
    start = subprocess.Popen

    def killed(command, **options):
        return start([sys.executable, "-c", KILLED_WHILE_SENDING, command[-2]], **options)

    monkeypatch.setattr(local.subprocess, "Popen", killed)
    with LocalEngine(1) as engine:
        engine.start(Job("0123456789abcdef", RunSpec()))
        (event,) = engine.events(60)
        assert isinstance(event, RunEnded)
        assert "signal 9" in event.result.error.message
        assert event.result.error.lacking == "memory"
        assert engine.free == 1
