"""The files that killed processes left in a store, and their removal."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from creditscope.records.folder import FAILED, KEY, LOCK, SNAPSHOT
from creditscope.study.store import Store


def litter(store: Store, *, failed: bool = False, snapshots: bool = False) -> Iterator[Path]:
    """The files that killed processes left; on request also failures, and the snapshots of unfinished runs."""
    for entry in sorted(store.folder.iterdir()) if store.folder.is_dir() else ():
        key = entry.name.partition(".")[0]
        ending = entry.name.removeprefix(key)
        if not KEY.fullmatch(key) or store.progress(key) is not None:
            continue
        unread = ending == LOCK or (ending.endswith(".part") and not _alive(ending))
        spent = ending.startswith(SNAPSHOT) and (snapshots or store.record_path(key) is not None)
        if unread or spent or (ending == FAILED and failed):
            yield entry


def clean(paths: Sequence[Path]) -> None:
    """Remove files and folders of a store."""
    for path in paths:
        with suppress(FileNotFoundError):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _alive(rest: str) -> bool:
    """Whether the process named in a temporary file name still runs on this machine."""
    for number in (int(part) for part in rest.split(".") if part.isdigit()):
        with suppress(ProcessLookupError, PermissionError):
            os.kill(number, 0)
            return True
    return False
