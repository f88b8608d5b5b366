"""A store of 10,000 finished runs: status, report, resuming and the study's page, in seconds and in MB.

Wall-clock seconds of the program itself, interpreter and imports included, its processor seconds (what a busy machine
does not stretch), and the peak of its memory. The runs are made up (`_many_runs.py`), in a temporary folder. The page
is opened in chromium if playwright is installed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from _many_runs import many_runs

from creditscope.study.plan import Plan
from creditscope.study.store import Store

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
MISSING = 10


def program(*arguments: str) -> list[str]:
    """The command line."""
    return [sys.executable, "-P", "-m", "creditscope", *arguments]


def line(what: str, seconds: float, processor: float | None, size: str, wanted: str) -> str:
    """One line of the output."""
    used = " " * 15 if processor is None else f"{processor:6.2f} s of CPU"
    return f"  {what:42} {seconds:6.2f} s {used} {size:>9}   {f'({wanted})' if wanted else ''}".rstrip()


def measured(what: str, wanted: str, *arguments: str) -> None:
    """Run the program once; print its seconds and its memory."""
    started = time.perf_counter()
    process = subprocess.Popen(program(*arguments), stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    _, code, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(code)
    assert process.returncode == 0, arguments
    seconds = time.perf_counter() - started
    print(line(what, seconds, used.ru_utime + used.ru_stime, f"{used.ru_maxrss / 1024:6.0f} MB", wanted), flush=True)


def resumed(file: Path, store: Store, runs: Plan) -> None:
    """Remove some runs, resume the study, and time it until the first of them is locked, and until all are done."""
    for key in list(runs)[:MISSING]:
        shutil.rmtree(store.place(key))
    started = time.perf_counter()
    command = program("study", "run", str(file), "--store", str(store.folder), "--workers", "1")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    while not any(store.folder.glob("*.lock")):
        time.sleep(0.01)
    first, used = time.perf_counter() - started, _processor(process.pid)
    assert process.wait() == 0
    print(line("resume: until the first run is locked", first, used, "", "below 3"))
    print(line(f"resume: {MISSING} short runs, from start to end", time.perf_counter() - started, None, "", ""))


def _processor(process: int) -> float | None:
    """The processor seconds of a process that still runs, where the kernel tells them."""
    state = Path(f"/proc/{process}/stat")
    if not state.exists():
        return None
    fields = state.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def opened(page: Path) -> None:
    """Open the study's page in chromium, and time it until its charts are drawn."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        print("  the page is not opened: playwright is not installed")
        return
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        tab = browser.new_page()
        for _ in range(2):  # the first start of a browser fills its own caches
            started = time.perf_counter()
            tab.goto(page.as_uri())
            loaded = time.perf_counter() - started
            tab.locator("html[data-drawn]").wait_for(state="attached")
            seconds = time.perf_counter() - started
        browser.close()
    size = f"{page.stat().st_size / 1e6:6.1f} MB"
    print(line("the page of the study, until it is loaded", loaded, None, size, "below 3"))
    print(line("the same, until all its charts are drawn", seconds, None, size, "below 3"))


def benchmark(folder: Path, rates: int, seeds: int) -> None:
    """Everything, on a study of 10 x rates x seeds runs."""
    with ProcessPoolExecutor(1, get_context("spawn")) as apart:  # a child's peak of memory begins at its parent's
        file, store, runs = apart.submit(many_runs, folder, rates, seeds).result()
    print(f"{len(runs):,} finished runs: 5 methods and their controls, {rates} learning rates, {seeds} seeds")
    study = (str(file), "--store", str(store.folder))
    measured("status, every record hashed", "", "study", "status", *study)
    measured("status", "below 2", "study", "status", *study)
    measured("report", "below 10", "study", "report", *study)
    resumed(file, store, runs)
    measured("report and pages", "", "study", "report", *study, "--html", str(folder / "pages"))
    opened(folder / "pages" / "index.html")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        benchmark(Path(name), *(map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (20, 50)))
