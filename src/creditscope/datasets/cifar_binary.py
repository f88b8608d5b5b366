"""The official binary files of CIFAR-10 and CIFAR-100: unpacking and reading.

A record is one or two label bytes, of which the last is the class, and then 3 x 32 x 32 pixel bytes.
"""

from __future__ import annotations

import shutil
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from creditscope.batch import Batch
from creditscope.datasets.cache import Checksum, Unreachable, download, unfinished
from creditscope.errors import BadFile

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


@dataclass(frozen=True, slots=True)
class Archive:
    """An official archive: its address, its checksum, and the members that hold the images."""

    name: str
    url: str
    checksum: Checksum
    folder: str
    members: tuple[str, ...]


def unpack(archive: Archive, home: Path) -> None:
    """Unpack the archive that lies in the cache folder."""
    packed = home / archive.name
    if not packed.exists():
        raise Unreachable("no such file")
    archive.checksum.check_file(packed)
    with tarfile.open(packed) as tar:
        for member in archive.members:
            source = tar.extractfile(f"{archive.folder}/{member}")
            if source is None:
                raise BadFile(f"{packed} holds no file {archive.folder}/{member}. Delete it and run again.")
            with unfinished(home / archive.folder / member) as part, part.open("wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)


def fetch_and_unpack(archive: Archive, home: Path) -> None:
    """Download the archive, unpack it, and remove it."""
    download(archive.url, home / archive.name, archive.checksum)
    unpack(archive, home)
    (home / archive.name).unlink(missing_ok=True)  # a process that fetched it too may be done first


def read_records(paths: Sequence[Path], checksums: Sequence[Checksum], *, label_bytes: int) -> Batch:
    """The images (N, 3, 32, 32), uint8, and classes (N,) of several files, each checked against its checksum."""
    parts = [_records(*pair, label_bytes) for pair in zip(paths, checksums, strict=True)]
    images = torch.cat([part[:, label_bytes:] for part in parts])
    labels = torch.cat([part[:, label_bytes - 1] for part in parts])
    return Batch(images.view(-1, *SHAPE), labels.long())


def _records(path: Path, expected: Checksum, label_bytes: int) -> torch.Tensor:
    content = np.fromfile(path, dtype=np.uint8)
    expected.check(content.data, path)
    return torch.from_numpy(content).view(-1, label_bytes + PIXELS)
