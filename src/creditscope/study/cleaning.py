"""The files that killed processes left in a store, and their removal."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from creditscope.machine import alive
from creditscope.records.folder import FAILED, KEY, LOCK, SNAPSHOT
from creditscope.study.store import Store


def litter(store: Store, *, failed: bool = False, snapshots: bool = False) -> Iterator[Path]:
    """The files that killed processes left; on request also failures, and the snapshots of unfinished runs."""
    for entry in sorted(store.folder.iterdir()) if store.folder.is_dir() else ():
        key, ending = _key_and_ending(entry)
        if not KEY.fullmatch(key) or store.progress(key) is not None:
            continue
        unread = ending == LOCK or (ending.endswith(".part") and not _in_use(ending))
        spent = ending.startswith(SNAPSHOT) and (snapshots or store.record_path(key) is not None)
        if unread or spent or (ending == FAILED and failed):
            yield entry


def clean(store: Store, paths: Sequence[Path]) -> list[Path]:
    """Remove files of a store, each under the lock of its run; those of a run that has been taken up stay."""
    return [path for path in paths if _removed(store, path)]


def _removed(store: Store, path: Path) -> bool:
    if path.is_symlink():  # no process leaves one, and in place of a lock it cannot be locked
        path.unlink(missing_ok=True)
        return True
    key, ending = _key_and_ending(path)
    lock = store.lock(key)
    if lock is None:
        return False
    try:
        if ending != LOCK:  # the lock's own file goes when it is released, and not before
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    finally:
        lock.release()
    return True


def _key_and_ending(path: Path) -> tuple[str, str]:
    key = path.name.partition(".")[0]
    return key, path.name.removeprefix(key)


def _in_use(ending: str) -> bool:
    """Whether the process named in a temporary file name still runs on this machine."""
    return any(alive(int(part)) for part in ending.split(".") if part.isdecimal())
