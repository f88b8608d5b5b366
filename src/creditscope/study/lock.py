"""Locks on runs: the process that holds the lock of KEY.lock works on that run; the lock ends with the process.

A link in place of the file is never followed: what it leads to would be overwritten with the progress of the run.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from creditscope.errors import BadFile


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is, as its process last wrote it."""

    process: int = 0
    machine: str = ""
    started: float = 0.0
    epoch: int = 0
    epochs: int = 0


class RunLock:
    """The exclusive right to execute one run: an open, locked file that is free again when its process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._started = time.time()

    @classmethod
    def acquire(cls, path: Path) -> RunLock | None:
        """The lock, or None if another process holds it."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            except OSError as error:
                raise BadFile(
                    f"The store cannot be written: {path}: {error.strerror}.\n"
                    "No run could be kept. Check its permissions and its free space, or choose another folder."
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            except OSError as error:
                os.close(descriptor)
                raise _no_locks(path, error) from error
            if _same_file(path, descriptor):
                return cls(path, descriptor)
            os.close(descriptor)  # its last owner removed it between our two calls

    def write_progress(self, epoch: int, epochs: int) -> None:
        """Write how far the run is, for `study status`."""
        progress = RunProgress(os.getpid(), socket.gethostname(), self._started, epoch, epochs)
        content = json.dumps({name: getattr(progress, name) for name in RunProgress.__slots__}).encode()
        with suppress(OSError):  # a full disk is reported where results are written
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, content, 0)

    def release(self) -> None:
        """Remove the file, then unlock it, so that no other process finds it unlocked."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _no_locks(path: Path, error: OSError) -> BadFile:
    """The error for a file system that grants no locks, such as some network mounts."""
    return BadFile(
        f"{path} cannot be locked: {error.strerror}.\n"
        "Two processes could execute the same run at once. Use a store on a file system with file locks, such as a "
        "local disk, by --store."
    )


def _same_file(path: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        named, opened = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def holder(path: Path) -> RunProgress | None:
    """The progress written last by the process that holds a lock; None if no process does."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    except OSError as error:
        raise _no_locks(path, error) from error
    finally:
        os.close(descriptor)
    return None


def _read(descriptor: int) -> RunProgress:
    try:
        return RunProgress(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError, RecursionError):
        return RunProgress()
