"""The store of a study: one folder per run, named by its key; the record is written last, so its presence means done.

KEY/weights.safetensors  KEY/record.json     a finished run
KEY.snapshot                                 the state of an unfinished one
KEY.failed.json                              why a run failed, with its traceback
KEY.lock                                     locked by the process that works on it
expanded/                                    expanded studies, so that `status` needs no torch
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from creditscope.errors import BadFile, UnknownName
from creditscope.files import read_text, write_text
from creditscope.records.folder import RECORD, WEIGHTS, snapshot_path, write_run
from creditscope.records.record import Record
from creditscope.records.run import RunRecord
from creditscope.study.lock import RunLock, RunProgress, holder

KEY = re.compile(r"[0-9a-f]{16}")
NO_REPORT = re.compile(rb'"report":\s*null\s*}\s*$')


class RunState(StrEnum):
    """The state of a run."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    MISSING = "missing"


class Failure(Record):
    """Why a run failed."""

    schema_version: Literal[1] = 1
    key: str
    spec: dict[str, Any]
    stage: Literal["train", "audit"] = "train"
    error: str
    traceback: str
    attempts: int = 1
    when: str = ""


class Store:
    """A folder of runs, over folders of committed records that count as done."""

    def __init__(self, folder: Path | str, beneath: Sequence[Path | str] = ()) -> None:
        self.folder = Path(folder)
        self.beneath = tuple(Path(layer) for layer in beneath)

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

    def record_path(self, key: str) -> Path | None:
        """The record of a run, in the store or beneath it; None if there is none."""
        own = self.folder / key / RECORD
        return own if own.exists() else self._layered.get(key)

    def record(self, key: str) -> RunRecord:
        """The record of a finished run."""
        path = self.record_path(key)
        if path is None:
            raise UnknownName(f"There is no finished run {key} in {self.folder}.\nRun its study first.")
        return RunRecord.from_json(path)

    def trained(self, key: str) -> Path | None:
        """The folder of a finished run with its weights; None for committed records, which have none."""
        folder = self.folder / key
        return folder if (folder / WEIGHTS).exists() and (folder / RECORD).exists() else None

    def snapshot(self, key: str) -> Path:
        """The file for the state of an unfinished run."""
        return snapshot_path(self.folder / key)

    def unaudited(self, key: str) -> bool:
        """Whether a finished run of this store has weights but no report yet; reads only the end of its record."""
        if self.trained(key) is None:
            return False
        path = self.folder / key / RECORD
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 64))
            return NO_REPORT.search(file.read()) is not None

    def failure(self, key: str) -> Failure | None:
        """Why a run failed, if it did."""
        path = self._failed(key)
        if not path.exists():
            return None
        try:
            return Failure.model_validate_json(read_text(path, "The failure"))
        except ValidationError as error:
            raise BadFile(f"{path} is not a valid failure: {error}\nRemove it to run the run again.") from error

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
        write_run(self.folder / key, weights, record)
        self._settled(key)

    def amend(self, key: str, record: RunRecord) -> None:
        """Replace the record of a finished run, after an audit."""
        record.to_json(self.folder / key / RECORD)
        self._settled(key)

    def fail(self, failure: Failure) -> None:
        """Write why a run failed, and count the attempts."""
        before = self.failure(failure.key)
        attempts = 1 if before is None else before.attempts + 1
        stamped = failure.model_copy(update={"attempts": attempts, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        write_text(self._failed(failure.key), stamped.model_dump_json(indent=1) + "\n")

    def _settled(self, key: str) -> None:
        """Remove the snapshot and the failure of a finished run."""
        for path in (self.snapshot(key), self._failed(key)):
            path.unlink(missing_ok=True)

    def _failed(self, key: str) -> Path:
        return self.folder / f"{key}.failed.json"

    def _lock_path(self, key: str) -> Path:
        return self.folder / f"{key}.lock"

    def litter(self, *, failed: bool = False, snapshots: bool = False) -> Iterator[Path]:
        """The files that killed processes left; on request also failures, and the snapshots of unfinished runs."""
        for entry in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            key, _, rest = entry.name.partition(".")
            if not KEY.fullmatch(key) or self.progress(key) is not None:
                continue
            unread = rest == "lock" or (rest.endswith(".part") and not _alive(rest))
            spent = rest == "snapshot" and (snapshots or self.record_path(key) is not None)
            if unread or spent or (rest == "failed.json" and failed):
                yield entry

    def clean(self, paths: Sequence[Path]) -> None:
        """Remove files and folders of the store."""
        for path in paths:
            with suppress(FileNotFoundError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def open_store(folder: Path, results: Sequence[Path] | None = None) -> Store:
    """A store over the folders of committed records; by default over `results`, if that folder exists."""
    if results is None:
        results = [layer for layer in (Path("results"),) if layer.is_dir()]
    for layer in results:
        if not layer.is_dir():
            raise BadFile(f"--results {layer} is not a folder.\nNo record could be read from it. Check the path.")
    return Store(folder, results)


def _alive(rest: str) -> bool:
    """Whether the process named in a temporary file name still runs on this machine."""
    for number in (int(part) for part in rest.split(".") if part.isdigit()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(number, 0)
            return True
    return False
