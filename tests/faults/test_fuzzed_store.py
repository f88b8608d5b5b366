"""A store that is killed, stopped, damaged, filled up and shared ends with the same bits, or says what was damaged."""

from __future__ import annotations

import io
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from tests.study.made import _timeless
from tests.study.test_tables import HEALTHY, report

from creditscope.errors import NoRoom
from creditscope.records.folder import weights_damage
from creditscope.study import driver
from creditscope.study.declaration import Study
from creditscope.study.display.board import Board
from creditscope.study.driver import StudyOptions, run_study
from creditscope.study.engines import job
from creditscope.study.engines.engine import Engine, EpochDone, Event, RunEnded
from creditscope.study.engines.job import Job, attempt
from creditscope.study.plan import plan
from creditscope.study.store import Store
from creditscope.training.checkpoint import Checkpoint

STUDY = """
[fixed]
"network.d" = 4
"network.depth" = 1
epochs = 3
batch_size = 1000
[grid]
method = ["bp", "dfa"]
"""
RUNS = plan(Study.parse(STUDY))
DONE, CRASHED, FULL, STOPPED = 0, 70, 74, 130
counts: Counter[str] = Counter()


class OneAtATime(Engine):
    """Executes every run in this process, so that what happens to the process happens in the middle of a run."""

    def __init__(self, on_epoch: Callable[[], object]) -> None:
        self._on_epoch, self._jobs = on_epoch, list[Job]()

    @property
    def workers(self) -> int:
        return 1

    @property
    def free(self) -> int:
        return 1 - len(self._jobs)

    def start(self, job: Job) -> None:
        self._jobs.append(job)

    def events(self, seconds: float) -> list[Event]:
        if not self._jobs:
            time.sleep(0.01)
            return []
        one = self._jobs.pop()
        result = attempt(one, lambda row: self._on_epoch())
        return [EpochDone(one.key, one.spec.epochs), RunEnded(one.key, result)]

    def stop(self) -> None:
        self._jobs = []


def audited(checkpoint: Checkpoint, one: Job) -> Checkpoint:
    """In place of an audit, which takes far longer than the training: the same report for every run."""
    return replace(checkpoint, record=checkpoint.record.model_copy(update={"report": report(HEALTHY)}))


def after(count: int, act: Callable[[], object]) -> Callable[..., None]:
    """A function that acts when it is called for the count-th time."""
    left = iter(range(count, -1, -1))

    def tick(*arguments: Any) -> None:
        if next(left, -1) == 0:
            act()

    return tick


def small_files(size: int) -> None:
    """From here on no file of this process grows beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def interrupt() -> None:
    raise KeyboardInterrupt


class Child:
    """A driver of the study in a process of its own, which ends with one of the codes above, or by a signal."""

    def __init__(self, folder: Path, prepare: Callable[[], object] = int, on_epoch: Callable[[], object] = int) -> None:
        self.told = folder.with_name(f"{folder.name}.told.{time.monotonic_ns()}")
        self.process = os.fork()
        if self.process == 0:
            code = CRASHED
            try:
                code = self._drive(folder, prepare, on_epoch)
            finally:
                os._exit(code)  # whatever happens, the child does not go on with the tests of its parent

    def _drive(self, folder: Path, prepare: Callable[[], object], on_epoch: Callable[[], object]) -> int:
        board = io.StringIO()
        try:
            driver.POLL_ELSEWHERE, job._audited = 0.05, audited
            prepare()
            options = StudyOptions(retry=True, snapshot_seconds=0.0, credit_of_controls=False)
            summary = run_study(RUNS, Store(folder), OneAtATime(on_epoch), Board(board), options)
            return CRASHED if summary.failed else DONE
        except KeyboardInterrupt:
            return STOPPED
        except NoRoom:
            return FULL
        except BaseException as error:  # noqa: BLE001  it must not reach pytest in this process
            board.write(f"{type(error).__name__}: {error}")
            return FULL if "File too large" in str(error) else CRASHED
        finally:
            small_files(resource.getrlimit(resource.RLIMIT_FSIZE)[1])  # room again
            self.told.write_text(board.getvalue())

    def end(self) -> tuple[int, str]:
        """The exit code, negative for a signal, and what the driver told."""
        _, status = os.waitpid(self.process, 0)
        return os.waitstatus_to_exitcode(status), self.told.read_text() if self.told.exists() else ""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("whole") / "store"
    for key, spec in RUNS.items():
        attempt(Job(key, spec), lambda row: None)  # every child then has the data and all modules
    assert Child(folder).end()[0] == DONE
    return ended(folder)


def ended(folder: Path) -> dict[str, Any]:
    """The record without its times, and the bytes of the weights, of every run that is done."""
    return {key: (_timeless(folder / key / "record.json"), _weights(folder / key)) for key in RUNS}


def _weights(folder: Path) -> bytes:
    path = folder / "weights.safetensors"
    return path.read_bytes() if path.exists() else b""


class Disturbed(RuleBasedStateMachine):
    """One store, to which everything happens in any order; at the end the study is run to its end."""

    whole: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="creditscope-fuzz-"))
        self.folder = self.root / "store"

    def files(self) -> list[Path]:
        """Every file of the store, in an order that does not depend on the machine."""
        return sorted(path for path in self.folder.rglob("*") if path.is_file()) if self.folder.exists() else []

    @rule()
    def run(self) -> None:
        code, told = Child(self.folder).end()
        assert code == DONE, told
        counts["run"] += 1

    @rule(epoch=st.integers(0, 6))
    def kill_in_an_epoch(self, epoch: int) -> None:
        code, told = Child(self.folder, on_epoch=after(epoch, die)).end()
        assert code in (-signal.SIGKILL, DONE), told
        counts["kill"] += code != DONE

    @rule(write=st.integers(0, 12), name=st.sampled_from(["fsync", "replace", "link", "unlink", "rename"]))
    def kill_in_a_write(self, write: int, name: str) -> None:
        """Killed before the given call that changes the disk."""

        def prepare() -> None:
            tick, plain = after(write, die), getattr(os, name)

            def counted(*arguments: Any, **options: Any) -> Any:
                tick()
                return plain(*arguments, **options)

            setattr(os, name, counted)

        code, told = Child(self.folder, prepare).end()
        assert code in (-signal.SIGKILL, DONE), told
        counts["kill"] += code != DONE

    @rule(epoch=st.integers(0, 6))
    def stop(self, epoch: int) -> None:
        before = set(self.folder.glob("*.lock"))  # of processes that were killed
        code, told = Child(self.folder, on_epoch=after(epoch, interrupt)).end()
        assert code in (STOPPED, DONE), told
        assert set(self.folder.glob("*.lock")) <= before
        counts["stop"] += 1

    @rule(room=st.integers(0, 20_000))
    def fill_the_disk(self, room: int) -> None:
        code, told = Child(self.folder, lambda: small_files(room)).end()
        assert code in (FULL, DONE), told
        assert not list(self.folder.glob("*.failed.json"))
        counts["fill"] += 1

    @rule(pause=st.integers(0, 5), epoch=st.integers(0, 3))
    def two_drivers_one_of_them_stopped_for_a_while(self, pause: int, epoch: int) -> None:
        pair = [
            Child(self.folder, on_epoch=after(epoch, lambda: os.kill(os.getpid(), signal.SIGSTOP))),
            Child(self.folder),
        ]
        time.sleep(pause / 50)
        end = time.monotonic() + 60
        while not os.waitid(os.P_PID, pair[0].process, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            os.kill(pair[0].process, signal.SIGCONT)
            assert time.monotonic() < end
            time.sleep(0.02)
        ends = [child.end() for child in pair]
        assert [code for code, _ in ends] == [DONE, DONE], ends
        counts["two drivers"] += 1

    @rule(seconds=st.sampled_from([-4e9, -86400.0, -1.0, 1.0, 4e9]))
    def run_after_the_clock_jumped(self, seconds: float) -> None:
        def prepare() -> None:
            plain = time.time
            time.time = lambda: max(0.0, plain() + seconds)

        for path in self.files():
            os.utime(path, (max(0.0, time.time() + seconds),) * 2)
        code, told = Child(self.folder, prepare).end()
        assert code == DONE, told
        counts["clock"] += 1

    @rule(place=st.integers(0, 2**16))
    def delete(self, place: int) -> None:
        for path in self.files()[place % max(1, len(self.files())) :][:1]:
            path.unlink()
            counts["delete"] += 1

    @rule(place=st.integers(0, 2**16), byte=st.integers(0, 2**20), bit=st.integers(0, 7))
    def flip_a_bit(self, place: int, byte: int, bit: int) -> None:
        for path in self.files()[place % max(1, len(self.files())) :][:1]:
            content = bytearray(path.read_bytes())
            if content:
                content[byte % len(content)] ^= 1 << bit
                path.write_bytes(content)
                counts["flip"] += 1

    def teardown(self) -> None:
        """The study ends with the undisturbed bits; weights that differ are told to whoever opens them."""
        try:
            code, told = Child(self.folder).end()
            assert code == DONE, told
            now = ended(self.folder)
            for key, (record, weights) in self.whole.items():
                assert now[key][0] == record
                if now[key][1] != weights:
                    assert not now[key][1] or weights_damage(self.folder / key)
        finally:
            shutil.rmtree(self.root)


def repeats() -> bool:
    """Whether the same disturbances are drawn every time; `make fuzz` draws anew."""
    return settings.default.max_examples <= 300


def disturb(whole: dict[str, Any], examples: int, steps: int) -> None:
    Disturbed.whole = whole
    checked, same = list(HealthCheck), repeats()
    run_state_machine_as_test(
        Disturbed,
        settings=settings(
            max_examples=examples, stateful_step_count=steps, derandomize=same, suppress_health_check=checked
        ),
    )


@pytest.mark.slow
def test_a_disturbed_store_ends_with_the_same_bits_or_says_what_is_damaged(undisturbed, capsys):
    counts.clear()
    disturb(undisturbed, max(10, settings.default.max_examples // 30), 10)
    with capsys.disabled():
        print(f"disturbances: {dict(counts)}")  # noqa: T201
    assert counts["run"] + counts["kill"] + counts["stop"] > 10


@pytest.mark.slow
def test_a_hundred_kills_with_flipped_bits_in_between_end_with_the_same_bits_or_say_what_is_damaged(
    undisturbed, capsys
):
    seed = 22 if repeats() else random.randrange(2**32)
    Disturbed.whole, draw = undisturbed, random.Random(seed)
    counts.clear()
    while counts["kill"] < 100:
        store = Disturbed()
        for _ in range(6):
            store.kill_in_an_epoch(draw.randrange(6))
            store.flip_a_bit(draw.randrange(2**16), draw.randrange(2**20), draw.randrange(8))
            store.kill_in_a_write(draw.randrange(10), draw.choice(["fsync", "replace", "link", "unlink", "rename"]))
        store.teardown()
    with capsys.disabled():
        print(f"disturbances of seed {seed}: {dict(counts)}")  # noqa: T201
    assert counts["flip"] >= 30
