"""Files of arrays, npz or safetensors, opened without reading more than is asked for."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy
from safetensors import SafetensorError, safe_open

from creditscope.errors import BadFile, CreditscopeError
from creditscope.machine import memory
from creditscope.reading import first_bytes

WRITE = "Write it with numpy.savez or safetensors."


@contextmanager
def opened_arrays(path: Path) -> Iterator[Mapping[str, Any]]:
    """The arrays of a file by name; each is read when it is asked for. The content decides the format.

    Pickles are never loaded, and a file whose arrays would not fit into memory is refused before any is read.
    """
    start = first_bytes(path)
    try:
        if start[:2] == b"PK":
            _check_sizes(path, _unpacked_bytes(path))
            with numpy.load(path, allow_pickle=False) as stored:
                yield stored
        elif start[8:9] == b"{":
            _check_sizes(path, path.stat().st_size)
            with safe_open(path, framework="pt") as stored:
                yield _Tensors(stored)
        else:
            raise BadFile(f"{path} is neither an npz nor a safetensors file.\nIt holds no arrays to audit. {WRITE}")
    except CreditscopeError:
        raise
    except OSError as error:
        raise BadFile(
            f"{path} cannot be read: {error.strerror or error}.\nThere is nothing to audit. Check the path."
        ) from error
    except (SafetensorError, zipfile.BadZipFile, ValueError, EOFError, KeyError) as error:
        raise BadFile(
            f"{path} is not a complete file of arrays: {error!s:.300}\n"
            f"Its numbers cannot be trusted. Copy or write it again. {WRITE}"
        ) from error


class _Tensors(Mapping[str, Any]):
    """The tensors of an open safetensors file."""

    def __init__(self, stored: Any) -> None:
        self._stored, self._names = stored, list(stored.keys())

    def __getitem__(self, name: str) -> Any:
        return self._stored.get_tensor(name)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _check_sizes(path: Path, wanted: int) -> None:
    """Refuse a file whose arrays need more bytes than this machine has."""
    if wanted > memory():
        raise BadFile(
            f"{path} would unpack to {wanted:.3g} bytes; this machine has {memory():.3g}.\n"
            "It cannot be read at once. Write one file per batch, with fewer samples each."
        )


def _unpacked_bytes(path: Path) -> int:
    """The bytes of all arrays of an archive: a small zip can unpack to anything."""
    with zipfile.ZipFile(path) as archive:
        return sum(_header_bytes(archive, member) for member in archive.infolist())


def _header_bytes(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> int:
    """The bytes of one array as its header declares them, or as the archive does if these are more."""
    with archive.open(member) as file:
        version = numpy.lib.format.read_magic(file)
        read = numpy.lib.format.read_array_header_1_0 if version == (1, 0) else numpy.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    return max(math.prod(shape) * dtype.itemsize, member.file_size)
