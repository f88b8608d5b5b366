"""The cache folder of datasets: checked downloads, and files that are either complete or absent."""

from __future__ import annotations

import hashlib
import http.client
import logging
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import platformdirs

from creditscope.errors import BadFile, DataUnavailable
from creditscope.machine import machine_error

FOLDER_VARIABLE = "CREDITSCOPE_DATA"
OFFLINE_VARIABLE = "CREDITSCOPE_OFFLINE"

log = logging.getLogger(__name__)


class Unreachable(Exception):
    """One source of a dataset that could not be used; the text says why."""


class Checksum(NamedTuple):
    """The expected hash of a file."""

    algorithm: str
    value: str

    def __str__(self) -> str:
        return f"{self.algorithm.upper()} {self.value}"

    def of_file(self, path: Path) -> Checksum:
        """The actual checksum of a file, by the same algorithm."""
        with path.open("rb") as file:
            return Checksum(self.algorithm, hashlib.file_digest(file, self.algorithm).hexdigest())

    def check(self, content: bytes | memoryview, path: Path) -> None:
        """Refuse file content with another checksum."""
        self._compare(Checksum(self.algorithm, hashlib.new(self.algorithm, content).hexdigest()), path)

    def check_file(self, path: Path) -> None:
        """Refuse a file with another checksum."""
        self._compare(self.of_file(path), path)

    def _compare(self, found: Checksum, path: Path) -> None:
        if found != self:
            raise BadFile(
                f"{path} has {found}, but should have {self}.\n"
                "It is damaged, incomplete or a different dataset: results on it could not be compared with others.\n"
                "Delete it and run again to fetch it."
            )


def cache_folder(folder: Path | str | None = None) -> Path:
    """The folder given, else the one in CREDITSCOPE_DATA, else the user's cache folder."""
    chosen = folder or os.environ.get(FOLDER_VARIABLE) or platformdirs.user_cache_dir("creditscope", appauthor=False)
    return Path(chosen).expanduser()


def offline() -> bool:
    """Whether CREDITSCOPE_OFFLINE forbids every download."""
    return os.environ.get(OFFLINE_VARIABLE, "") not in ("", "0")


@contextmanager
def unfinished(path: Path) -> Iterator[Path]:
    """A `.part` file beside `path` that becomes `path` if the block succeeds and is removed if it does not."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.", suffix=".part")
        os.close(handle)
    except OSError as reason:
        raise BadFile(
            f"The folder {path.parent} cannot be written: {reason}.\n"
            f"{path.name} cannot be stored. Pass another cache folder, or name one in {FOLDER_VARIABLE}."
        ) from reason
    part = Path(name)
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.chmod(0o644)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def download(url: str, target: Path, expected: Checksum, *, timeout: float = 10.0) -> None:
    """Fetch `url` into `target`; a download without the expected checksum is discarded."""
    if offline():
        raise Unreachable(f"downloads are switched off by {OFFLINE_VARIABLE}")
    log.info("fetching %s", url)
    try:
        with unfinished(target) as part:
            with urllib.request.urlopen(url, timeout=timeout) as response, part.open("wb") as file:
                shutil.copyfileobj(response, file, 1 << 20)
            actual = expected.of_file(part)
            if actual != expected:
                raise Unreachable(f"the download has {actual}, not {expected}")
    except (OSError, http.client.HTTPException) as reason:
        lacking = machine_error(reason)
        if lacking is not None:  # another source would not find more room
            raise lacking from reason
        raise Unreachable(str(reason) or type(reason).__name__) from reason


def obtain(name: str, folder: Path, sources: Mapping[str, Callable[[], None]], remedy: str) -> None:
    """Use the first source that works; if none does, say what was tried and which file to put where."""
    tried = []
    for title, fetch in sources.items():
        try:
            return fetch()
        except Unreachable as reason:
            tried.append(f"  {title}: {reason}")
    raise DataUnavailable(
        "\n".join(
            (
                f"The dataset {name!r} is not in {folder} and could not be fetched. Tried:",
                *tried,
                "Nothing can be trained or audited on it without its files.",
                remedy,
            )
        )
    )
