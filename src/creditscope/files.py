"""Reading text files, and writing files that are either complete or absent."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from creditscope.errors import BadFile


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """A temporary file beside `path` that becomes `path` if the block succeeds and is removed if it does not."""
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
            f"{path} cannot be written: {error.strerror or error}.\nNothing was left behind. Choose another place."
        ) from error
    finally:
        with suppress(OSError):  # the folder itself may be what is wrong
            part.unlink()


def check_folder(path: Path) -> None:
    """Refuse a folder that cannot be created or written to, before anything is written or run."""
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK):
        raise BadFile(
            f"{path} cannot be written: {nearest} is not a writable folder.\n"
            "Nothing was run or written. Choose another place."
        )


def write_text(path: Path | str, text: str) -> Path:
    """Write a text file, complete or not at all."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")
    return Path(path)


def read_text(path: Path | str, what: str) -> str:
    """The text of a file; one that cannot be read is named, with what it should have been."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(
            f"{what} {path} cannot be read: {getattr(error, 'strerror', None) or error}.\nCheck the path."
        ) from error
