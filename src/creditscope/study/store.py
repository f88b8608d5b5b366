"""Where are runs kept?  One folder per run, named by its key; the record comes last, so its presence means done.

KEY/weights.safetensors  KEY/record.json     a finished run
KEY.snapshot                                 the state of an unfinished one
KEY.failed.json                              why a run failed, with its traceback
KEY.lock                                     locked by the process that works on it
expanded/                                    studies as they were expanded, so that `status` needs no torch
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
    """Where a run stands."""

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
        found: dict[str, Path] = {}
        for layer in self.beneath:
            for path in sorted(layer.rglob("*.json")):
                key = path.parent.name if path.name == RECORD else path.stem
                if KEY.fullmatch(key):
                    found.setdefault(key, path)
        return found

    def record_path(self, key: str) -> Path | None:
        """The record of a run, in the store or beneath it; None if there is none."""
        own = self.folder / key / RECORD
        return own if own.exists() else self._layered.get(key)

    def record(self, key: str) -> RunRecord:
        """What a finished run left behind."""
        path = self.record_path(key)
        if path is None:
            raise UnknownName(f"There is no finished run {key} in {self.folder}.\nRun its study first.")
        return RunRecord.from_json(path)

    def trained(self, key: str) -> Path | None:
        """The folder of a run with its weights; committed records come without."""
        folder = self.folder / key
        return folder if (folder / WEIGHTS).exists() and (folder / RECORD).exists() else None

    def snapshot(self, key: str) -> Path:
        """Where the state of an unfinished run is kept."""
        return snapshot_path(self.folder / key)

    def unaudited(self, key: str) -> bool:
        """Whether a finished run of this store has weights but no report yet; looks at the end of its record only."""
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
            raise BadFile(f"{path} does not say why a run failed: {error}\nRemove it to run again.") from error

    def progress(self, key: str) -> RunProgress | None:
        """How far the process is that works on a run; None if nobody does."""
        return holder(self._lock_path(key))

    def ended(self, key: str) -> RunState:
        """Done, failed or missing, whoever may be at work on it."""
        if self._failed(key).exists():
            return RunState.FAILED
        return RunState.MISSING if self.record_path(key) is None else RunState.DONE

    def state(self, key: str) -> RunState:
        """Where a run stands; a process at work on one that is not done makes it running."""
        ended = self.ended(key)
        return RunState.RUNNING if ended is not RunState.DONE and self.progress(key) is not None else ended

    def keys(self) -> list[str]:
        """Every key of which the store or a layer knows anything."""
        names = [entry.name.partition(".")[0] for entry in os.scandir(self.folder)] if self.folder.is_dir() else []
        return sorted({name for name in (*names, *self._layered) if KEY.fullmatch(name)})

    # --- writing ---

    def prepare(self) -> None:
        """Make the folder, or say why it cannot be one."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadFile(
                f"The store {self.folder} cannot be made: {error.strerror}.\n"
                "No run could be kept. Choose another folder."
            ) from error

    def lock(self, key: str) -> RunLock | None:
        """The right to do a run; None while another process has it."""
        return RunLock.acquire(self._lock_path(key))

    def commit(self, key: str, weights: bytes, record: RunRecord) -> None:
        """Keep a finished run: its folder appears complete, or not at all."""
        write_run(self.folder / key, weights, record)
        self._settled(key)

    def amend(self, key: str, record: RunRecord) -> None:
        """Put another record in the place of one that is there: the same run, audited."""
        record.to_json(self.folder / key / RECORD)
        self._settled(key)

    def fail(self, failure: Failure) -> None:
        """Write down why a run failed, and how often it has."""
        before = self.failure(failure.key)
        attempts = 1 if before is None else before.attempts + 1
        stamped = failure.model_copy(update={"attempts": attempts, "when": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
        write_text(self._failed(failure.key), stamped.model_dump_json(indent=1) + "\n")

    def _settled(self, key: str) -> None:
        """A finished run needs neither its snapshot nor its past failures."""
        for path in (self.snapshot(key), self._failed(key)):
            path.unlink(missing_ok=True)

    def _failed(self, key: str) -> Path:
        return self.folder / f"{key}.failed.json"

    def _lock_path(self, key: str) -> Path:
        return self.folder / f"{key}.lock"

    def litter(self, *, failed: bool = False, snapshots: bool = False) -> Iterator[Path]:
        """What killed processes left behind; on request also failures, and the snapshots of unfinished runs."""
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
    """Whether the process that a temporary name carries still runs on this machine."""
    for number in (int(part) for part in rest.split(".") if part.isdigit()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(number, 0)
            return True
    return False
