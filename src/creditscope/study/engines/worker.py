"""A worker process: executes one job after another for a driver, and ends when the driver does."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Connection

PR_SET_PDEATHSIG = 1


def serve(connection: Connection, driver: int) -> None:
    """Execute jobs until the driver closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the driver, which ends its workers
    end_with(driver)
    from creditscope.study.engines.job import attempt_all

    with suppress(Exception):  # the first job meets the same error, and reports it
        from creditscope.runs import audit, run  # noqa: F401
    while True:
        try:
            job = connection.recv()
        except EOFError:
            return
        for key, result in attempt_all(job, lambda key, row: connection.send((key, row.epoch + 1))):
            connection.send((key, result))


def end_with(driver: int) -> None:
    """End this process when the driver ends: by the kernel on Linux, otherwise by a check every second."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_watch, args=(driver,), daemon=True).start()


def _watch(driver: int) -> None:
    while os.getppid() == driver:
        time.sleep(1.0)
    os._exit(1)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])), int(sys.argv[2]))
