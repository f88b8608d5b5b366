"""Writing files that are either complete or absent."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from creditscope.arguments import as_path
from creditscope.errors import BadFile, NoRoom
from creditscope.machine import DISK


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """A temporary file beside `path` that becomes `path` if the block succeeds and is removed if it does not.

    A symbolic link stays, and the file that it names is replaced; a file that exists keeps its permissions. A device or
    a pipe is refused: a rename would put a plain file in its place.
    """
    path = as_path(path)
    target = _regular_target(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        if target.exists():
            part.chmod(stat.S_IMODE(target.stat().st_mode))
        part.replace(target)
    except OSError as error:
        kind, advice = BadFile, "Choose another place."
        if error.errno in DISK:
            kind, advice = NoRoom, "Make room, then run the same command again, or choose another place."
        raise kind(
            f"{path} cannot be written: {error.strerror or error}.\nNothing was left behind. {advice}"
        ) from error
    finally:
        with suppress(OSError):  # the folder itself may be what is wrong
            part.unlink()


def _regular_target(path: Path) -> Path:
    """The file behind `path`, links followed; anything but a regular file, or nothing yet, is refused."""
    try:
        target = path.resolve()
        special = target.exists() and not target.is_file() and not target.is_dir()
    except (OSError, RuntimeError, ValueError) as error:  # a circle of links, a name with NUL
        raise BadFile(f"{path!s} cannot be written: {error}.\nNothing was written. Choose another place.") from error
    if special:
        raise BadFile(
            f"{path} is a device, a pipe or a socket, not a file.\n"
            "Writing a file there would replace it. Nothing was written. Choose another place."
        )
    return target


def without_link(path: Path) -> Path:
    """The path, no longer a symbolic link: in a folder of runs that somebody sent, one could lead to any file."""
    if path.is_symlink():
        path.unlink()
    return path


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be created or written to, before anything is written or run."""
    reason = unwritable(path)
    if reason:
        raise BadFile(f"{path} cannot be written: {reason}.\nNothing was run or written. Choose another place.")


def unwritable(folder: Path) -> str:
    """Why nothing can be written into a folder, which need not exist yet; empty if something can."""
    nearest = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not nearest.is_dir():
        return f"{nearest} is not a folder"
    return "" if os.access(nearest, os.W_OK) else f"no permission to write in {nearest}"


def write_text(path: Path | str, text: str) -> Path:
    """Write a text file, complete or not at all."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")
    return Path(path)
