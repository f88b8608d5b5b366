"""The store of a study: one folder per run, named by its key; the record is written last, so its presence means done.

KEY/weights.safetensors  KEY/record.json     a finished run
KEY.snapshot                                 the state of an unfinished one
KEY.failed.json                              why a run failed, with its traceback
KEY.lock                                     locked by the process that works on it
expanded/                                    expanded studies, so that `status` needs no torch
checked.json                                 records that were hashed, in a store of many
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from creditscope.errors import BadFile, DamagedFile, UnknownName
from creditscope.files import without_link, write_text
from creditscope.reading import read_bytes
from creditscope.records.folder import (
    FAILED,
    KEY,
    LOCK,
    RECORD,
    WEIGHTS,
    recover_snapshot,
    remove_snapshots,
    set_aside,
    snapshot_path,
    weights_damage,
    write_run,
)
from creditscope.records.run import RunRecord
from creditscope.records.summary import Judgeable, summary_of
from creditscope.study.checked import Checked, CheckedRecords
from creditscope.study.failure import Failure, read_failure
from creditscope.study.lock import RunLock, RunProgress, holder
from creditscope.terminal import one_line


def check_key(key: str) -> str:
    """The key of a run; anything else could lead to a place outside the store, and is refused."""
    if not KEY.fullmatch(key):
        raise DamagedFile(
            f"{key!r} is not the key of a run, which has 16 hexadecimal digits.\n"
            "A file named by it could lie outside the store. Nothing was read or written."
        )
    return key


class RunState(StrEnum):
    """The state of a run."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    MISSING = "missing"


class Store:
    """A folder of runs, over folders of committed records that count as done."""

    def __init__(self, folder: Path | str, beneath: Sequence[Path | str] = ()) -> None:
        self.folder = Path(folder)
        self.beneath = tuple(Path(layer) for layer in beneath)
        self._checked = CheckedRecords(self.folder)

    # --- reading ---

    @cached_property
    def _layered(self) -> dict[str, Path]:
        """Committed records by key, anywhere below the layers: KEY/record.json or KEY.json; the first layer wins."""
        paths: dict[str, Path] = {}
        for layer in self.beneath:
            for path in sorted(layer.rglob("*.json")):
                key = path.parent.name if path.name == RECORD else path.stem
                if KEY.fullmatch(key):
                    paths.setdefault(key, path)
        return paths

    def place(self, key: str) -> Path:
        """The folder of a run."""
        return self.folder / check_key(key)

    def record_path(self, key: str) -> Path | None:
        """The record of a finished run, in the store or beneath it; None if there is none, or only a damaged one."""
        path, checked = self._check(key)
        return None if checked is None or checked.damage else Path(path)

    def _check(self, key: str) -> tuple[str, Checked | None]:
        """The place of a run's record and what was found there: in the store, else beneath it."""
        own = f"{self.folder}/{check_key(key)}/{RECORD}"
        checked = self._checked.check(own, key)
        beneath = self._layered.get(key) if checked is None else None
        if beneath is None:
            return own, checked
        return str(beneath), self._checked.check(str(beneath), key, listed=True)

    def record(self, key: str) -> RunRecord:
        """The record of a finished run."""
        path = self.record_path(key)
        if path is None:
            reason = self.damage(key)
            damaged = f" Its record cannot be trusted: {reason}." if reason else ""
            raise UnknownName(f"There is no finished run {key} in {self.folder}.{damaged}\nRun its study first.")
        record = RunRecord.from_json(path)
        if record.key != key:
            raise DamagedFile(f"{path} is the record of another run, {record.key}.\nRestore the record of {key}.")
        return record

    def summary(self, key: str, *, control: bool = False) -> Judgeable | None:
        """The part of a run's record from which its study is judged, or None; of a control without its report."""
        path, checked = self._check(key)
        if checked is None or checked.damage:
            return None
        return summary_of(read_bytes(path, "The record"), key, control=control) or self.record(key)

    def damage(self, key: str) -> str:
        """Why the record of a run cannot be trusted, in the store or beneath it; empty if it can, or has none."""
        _, checked = self._check(key)
        return "" if checked is None else checked.damage

    def trained(self, key: str) -> Path | None:
        """The folder of a finished run with its weights; None for committed records, which have none."""
        folder = self.place(key)
        return folder if (folder / WEIGHTS).exists() and self.record_path(key) == folder / RECORD else None

    def snapshot(self, key: str) -> Path:
        """The file for the state of an unfinished run."""
        return snapshot_path(self.place(key))

    def unaudited(self, key: str) -> bool:
        """Whether a finished run of this store has weights but no report yet."""
        _, checked = self._check(key)
        return checked is not None and not checked.audited and self.trained(key) is not None

    def failure(self, key: str) -> Failure | None:
        """Why a run failed, if it did."""
        path = self._failed(key)
        return read_failure(path, key) if path.exists() else None

    def progress(self, key: str) -> RunProgress | None:
        """The progress of the process that executes a run; None if there is none."""
        return holder(self._lock_path(key))

    def ended(self, key: str) -> RunState:
        """Done, failed or missing, whether or not a process executes it now."""
        if self._failed(key).exists():
            return RunState.FAILED
        return RunState.MISSING if self.record_path(key) is None else RunState.DONE

    def state(self, key: str) -> RunState:
        """The state of a run; running if a process executes it and it is not done."""
        ended = self.ended(key)
        return RunState.RUNNING if ended is not RunState.DONE and self.progress(key) is not None else ended

    def states(self, keys: Iterable[str]) -> dict[str, RunState]:
        """The state of many runs."""
        ended = self.ended_states(keys)
        unfinished = [key for key, state in ended.items() if state is not RunState.DONE]
        return ended | {key: RunState.RUNNING for key in unfinished if self.progress(key) is not None}

    def ended_states(self, keys: Iterable[str]) -> dict[str, RunState]:
        """The same whether or not a process executes them now; from one listing of the folder."""
        names, states = {entry.name for entry in os.scandir(self.folder)} if self.folder.is_dir() else set(), {}
        for key in keys:
            if f"{check_key(key)}{FAILED}" in names:
                states[key] = RunState.FAILED
            else:
                known = key in names or key in self._layered
                states[key] = RunState.DONE if known and self.record_path(key) is not None else RunState.MISSING
        self._checked.save()
        return states

    def keys(self) -> list[str]:
        """Every key in the store or a layer."""
        names = [entry.name.partition(".")[0] for entry in os.scandir(self.folder)] if self.folder.is_dir() else []
        return sorted({name for name in (*names, *self._layered) if KEY.fullmatch(name)})

    # --- writing ---

    def prepare(self) -> None:
        """Make the folder of the store."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(
                f"The store {self.folder} cannot be made: {error.strerror}.\n"
                "No run could be kept. Choose another folder."
            ) from error

    def lock(self, key: str) -> RunLock | None:
        """The lock of a run; None while another process holds it."""
        return RunLock.acquire(self._lock_path(key))

    def commit(self, key: str, weights: bytes, record: RunRecord) -> None:
        """Keep a finished run: its folder appears complete, or not at all."""
        write_run(self.place(key), weights, record)
        self._settled(key)

    def amend(self, key: str, record: RunRecord) -> None:
        """Replace the record of a finished run, after an audit."""
        record.to_json(without_link(self.place(key) / RECORD))
        self._settled(key)

    def fail(self, failure: Failure, before: Failure | None = None) -> None:
        """Write why a run failed, and count the attempts.

        before   its last failure, if that was removed when the trained network was kept
        """
        before = before or self.failure(failure.key)
        attempts = 1 if before is None else before.attempts + 1
        stamped = failure.model_copy(update={"attempts": attempts, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        write_text(without_link(self._failed(failure.key)), stamped.model_dump_json(indent=1) + "\n")

    def _settled(self, key: str) -> None:
        """Remove the snapshots and the failure of a finished run."""
        remove_snapshots(self.snapshot(key))
        self._failed(key).unlink(missing_ok=True)

    def recover(self, key: str) -> list[str]:
        """Set aside what is damaged of a run of this store, by a process that holds its lock; what was done, in words.

        Its weights, if it has any, are compared with its record: they are about to be used.
        """
        notices, folder = [], self.place(key)
        if (folder / RECORD).exists():
            reason = self.damage(key) or (weights_damage(folder) if (folder / WEIGHTS).exists() else "")
            if reason:
                notices.append(f"{reason}. It was moved to {set_aside(folder, reason)}, and the run is run again.")
        notices.append(recover_snapshot(self.snapshot(key)))
        return [notice for notice in notices if notice]

    def _failed(self, key: str) -> Path:
        return self.folder / f"{check_key(key)}{FAILED}"

    def _lock_path(self, key: str) -> Path:
        return self.folder / f"{check_key(key)}{LOCK}"


def open_store(folder: Path, results: Sequence[Path] | None = None) -> Store:
    """A store over the folders of committed records; by default over `results`, if that folder exists."""
    try:
        folder.exists()
    except OSError as error:  # a name that no file system takes, or a folder that may not be looked into
        reason = f"The store {one_line(str(folder))} cannot be read: {error.strerror}"
        raise BadFile(f"{reason}.\nNo run could be found or kept. Choose another folder.") from error
    if results is None:
        results = [layer for layer in (Path("results"),) if layer.is_dir()]
    for layer in results:
        if not layer.is_dir():
            raise BadFile(f"--results {layer} is not a folder.\nNo record could be read from it. Check the path.")
    return Store(folder, results)
