"""Files that are either whole or not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from creditscope.errors import BadFile


@contextmanager
def whole(path: Path | str) -> Iterator[Path]:
    """A temporary name beside `path` that becomes `path` when the block ends well, and vanishes when it does not."""
    path = Path(path)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise BadFile(
            f"{path} cannot be written: {error.strerror or error}.\nNothing was left there. Choose another place."
        ) from error
    finally:
        with suppress(OSError):  # the folder itself may be what is wrong
            part.unlink()


def check_folder(path: Path) -> None:
    """Refuse a place where no folder can be, before anything is written or run."""
    there = next(one for one in (path, *path.parents) if one.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise BadFile(
            f"{path} cannot be written: {there} is no folder that can be written to.\n"
            "Nothing was run or written. Choose another place."
        )


def write_text(path: Path | str, text: str) -> Path:
    """Write a text file whole."""
    with whole(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def read_text(path: Path | str, what: str) -> str:
    """Read a text file, or say which one is missing."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{what} {path} cannot be read: {error}.\nCheck the path.") from error
