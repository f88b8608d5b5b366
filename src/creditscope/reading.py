"""Reading files that somebody may have sent: limits of size, depth and digits, UTF-8, and checksums.

Everything that comes from a file goes through here before anybody looks at its values. A file that creditscope writes
carries a checksum of itself: 64 digits that stand as zeros while the hash is computed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from creditscope.arguments import as_path
from creditscope.errors import BadFile, DamagedFile

MOST_BYTES = 2**28  # of a text file: far more than any record or log needs
MOST_DEPTH = 100  # of lists and objects inside each other
MOST_DIGITS = 300  # of a whole number: any shorter one is within the range of a float
ZEROS = "0" * 64
NUMBER = re.compile(r"(?<![\w.-])[+-]?\d+\.\d+(?=[\s,\]}eE]|$)")  # its dot is none of a key
SEAL = re.compile(rb'"checksum": ?"([0-9a-f]{64})"')


def read_bytes(path: Path | str, what: str, most: int = MOST_BYTES) -> bytes:
    """The content of a file of at most `most` bytes; `what` begins the error message."""
    try:
        with _opened(as_path(path)) as file:
            state = os.fstat(file.fileno())
            expected = state.st_size if stat.S_ISREG(state.st_mode) else MOST_BYTES  # a pipe has no size
            content = file.read(min(expected, most) + 1)
    except IsADirectoryError as error:
        raise DamagedFile(f"{what} {path} cannot be read: it is a folder, not a file.\nCheck the path.") from error
    except (OSError, ValueError) as error:  # a name with NUL is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise BadFile(f"{what} {path} cannot be read: {reason}.\nCheck the path.") from error
    if len(content) > most:
        raise DamagedFile(
            f"{what} {path} has more than {most:,} bytes.\n"
            "No file of this kind is that large, so it was not read. Check the path."
        )
    return content


def _opened(path: Path) -> BinaryIO:
    """The file, without waiting for a process to write to it: a pipe in a folder that somebody sent has no writer."""
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(number, True)  # what has a writer is read to its end
    return os.fdopen(number, "rb")


def first_bytes(path: Path) -> bytes:
    """The first 16 bytes of a file of tensors, which tell its format; a device or a pipe cannot be one."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, not a file")
        with path.open("rb") as file:
            return file.read(16)
    except (OSError, ValueError) as error:  # a name with NUL is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise BadFile(f"{path} cannot be read: {reason}.\nThere is nothing to audit. Check the path.") from error


def read_text(path: Path | str, what: str, most: int = MOST_BYTES) -> str:
    """The text of a UTF-8 file; one that cannot be read is named, with what it should have been."""
    try:
        return read_bytes(path, what, most).decode()
    except UnicodeDecodeError as error:
        raise DamagedFile(
            f"{what} {path} cannot be read: it is not UTF-8 ({error.reason} at byte {error.start:,}).\n"
            "It is damaged, or another kind of file. Check the path."
        ) from error


def parse_json(text: str, name: str) -> Any:
    """The content of a JSON text, within the limits; `name` is what error messages call the text."""
    try:
        content = json.loads(text, parse_int=_whole_number)
    except RecursionError as error:
        raise _too_deep(name) from error
    except ValueError as error:
        raise DamagedFile(f"{name} is not JSON: {error}.\nIt is damaged, or another kind of file.") from error
    _check_depth(content, name)
    return content


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The content of a TOML text, within the limits."""
    if any(line.count(".") > MOST_DEPTH and NUMBER.sub("", line).count(".") > MOST_DEPTH for line in text.split("\n")):
        raise _too_deep(name)  # a.a.a nests too, in a time that grows with its square
    try:
        content = tomllib.loads(text)
    except RecursionError as error:
        raise _too_deep(name) from error
    except ValueError as error:
        raise DamagedFile(f"{name} is not valid TOML: {error}.") from error
    _check_depth(content, name)
    if any(isinstance(leaf, int) and abs(leaf) >= 10**MOST_DIGITS for leaf in _leaves(content)):
        raise DamagedFile(f"{name} is not valid TOML: a whole number has more than {MOST_DIGITS} digits.")
    return content


def _whole_number(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"a whole number has {len(digits):,} digits, more than {MOST_DIGITS}")
    return int(digits)


def _check_depth(content: Any, name: str) -> None:
    level = [content]
    for _ in range(MOST_DEPTH + 1):
        level = [child for node in level for child in _inside(node) if isinstance(child, dict | list)]
        if not level:
            return
    raise _too_deep(name)


def _inside(node: Any) -> Any:
    return node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()


def _leaves(node: Any) -> Iterator[Any]:
    if not isinstance(node, dict | list):
        yield node
    for child in _inside(node):
        yield from _leaves(child)


def _too_deep(name: str) -> BadFile:
    return DamagedFile(
        f"{name} nests lists or objects more than {MOST_DEPTH} levels deep.\n"
        "No file of creditscope does, and reading it could exhaust the memory. It was not read."
    )


# --- checksums ---


def sealed(content: bytes) -> bytes:
    """The content with its checksum in place of the zeros of its property "checksum"."""
    place = SEAL.search(content)
    if place is None or place[1] != ZEROS.encode():
        raise ValueError("there is no empty checksum to fill")
    inside = memoryview(content)
    digest = hashlib.sha256(inside).hexdigest().encode()
    return b"".join((inside[: place.start(1)], digest, inside[place.end(1) :]))


def seal_holds(content: bytes) -> bool | None:
    """Whether the content is what was written, to the last bit; None if it carries no checksum."""
    place = SEAL.search(content)
    if place is None:
        return None
    inside = memoryview(content)
    digest = hashlib.sha256(inside[: place.start(1)])
    digest.update(ZEROS.encode())
    digest.update(inside[place.end(1) :])
    return digest.hexdigest() == place[1].decode()
