"""Who works on a run?  The process that holds the lock of its claim file; the lock vanishes with the process."""

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
class Progress:
    """How far a run is, as its owner last wrote it down."""

    process: int = 0
    machine: str = ""
    started: float = 0.0
    epoch: int = 0
    epochs: int = 0


class Claim:
    """The right to do one run: an open, locked file. Nobody else gets it until it is released or its process ends."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor
        self._started = time.time()

    @classmethod
    def take(cls, path: Path) -> Claim | None:
        """The claim, or None if another process holds it."""
        while True:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise BadFile(
                    f"The store cannot be written: {path}: {error.strerror}.\n"
                    "No run could be kept. Choose another folder, or make room."
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
                return None
            if _same_file(path, descriptor):
                return cls(path, descriptor)
            os.close(descriptor)  # its last owner removed it between our two calls

    def tell(self, epoch: int, epochs: int) -> None:
        """Write down how far the run is, for whoever asks for the status."""
        progress = Progress(os.getpid(), socket.gethostname(), self._started, epoch, epochs)
        content = json.dumps({name: getattr(progress, name) for name in Progress.__slots__}).encode()
        with suppress(OSError):  # a full disk will speak up where it matters
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, content, 0)

    def release(self) -> None:
        """Let go; the file goes first, so that nobody finds it unlocked."""
        self._path.unlink(missing_ok=True)
        os.close(self._descriptor)


def _same_file(path: Path, descriptor: int) -> bool:
    """Whether the name still leads to the file that is open."""
    try:
        there, here = path.stat(), os.fstat(descriptor)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)


def holder(path: Path) -> Progress | None:
    """What the living owner of a claim wrote last; None if nobody holds it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)
    return None


def _read(descriptor: int) -> Progress:
    try:
        return Progress(**json.loads(os.pread(descriptor, 4096, 0)))
    except (ValueError, TypeError):
        return Progress()
