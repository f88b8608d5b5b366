"""Fashion-MNIST from small idx files made here."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from creditscope.datasets import fashion_mnist
from creditscope.datasets.cache import Checksum
from creditscope.errors import BadFile, DataUnavailable


def idx(values: NDArray[np.uint8]) -> bytes:
    """The file format as its makers describe it: magic number, lengths, big-endian, then the values."""
    return struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, NDArray[np.uint8]]:
    """Four small files in a folder that stands for the Debian package's; no network can be reached."""
    draw = np.random.default_rng(0)
    shapes = [(12, 28, 28), (12,), (5, 28, 28), (5,)]
    arrays = dict(
        zip(
            fashion_mnist.FILES,
            [draw.integers(0, 256 if len(shape) > 1 else 10, shape, dtype=np.uint8) for shape in shapes],
            strict=True,
        )
    )
    package = tmp_path / "package"
    package.mkdir()
    for name, values in arrays.items():
        (package / name).write_bytes(gzip.compress(idx(values)))
    sums = {name: Checksum("sha256", hashlib.sha256(idx(values)).hexdigest()) for name, values in arrays.items()}
    monkeypatch.setattr(fashion_mnist, "CONTENT", sums)
    monkeypatch.setattr(fashion_mnist, "DEBIAN", package)
    monkeypatch.setattr(fashion_mnist, "URL", "http://127.0.0.1:9")
    monkeypatch.delenv("CREDITSCOPE_OFFLINE", raising=False)
    return arrays


def assert_is(made: dict[str, NDArray[np.uint8]], folder: Path) -> None:
    data = fashion_mnist.fashion_mnist(folder)
    train, train_labels, test, test_labels = made.values()
    assert torch.equal(data.train.inputs, torch.from_numpy(train[:, None]))
    assert torch.equal(data.test.inputs, torch.from_numpy(test[:, None]))
    assert data.train.labels.tolist() == train_labels.tolist()
    assert data.test.labels.tolist() == test_labels.tolist()


def test_the_files_of_the_debian_package_are_read_where_they_are(
    made: dict[str, NDArray[np.uint8]], tmp_path: Path
) -> None:
    assert_is(made, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_files_in_the_cache_come_before_those_of_the_package(
    made: dict[str, NDArray[np.uint8]], tmp_path: Path
) -> None:
    shutil.copytree(fashion_mnist.DEBIAN, tmp_path / "cache" / "fashion-mnist")
    for path in fashion_mnist.DEBIAN.iterdir():
        path.write_bytes(b"damaged")
    assert_is(made, tmp_path / "cache")


def test_the_official_address_is_asked_where_the_package_is_missing(
    made: dict[str, NDArray[np.uint8]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = fashion_mnist.DEBIAN
    sums = {path.name: Checksum("md5", "").of_file(path) for path in offered.iterdir()}
    monkeypatch.setattr(fashion_mnist, "FILES", {name: sums[name] for name in fashion_mnist.FILES})
    monkeypatch.setattr(fashion_mnist, "URL", offered.as_uri())
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "nowhere")
    assert_is(made, tmp_path / "cache")


def test_without_package_and_network_the_error_says_what_to_put_where(
    made: dict[str, NDArray[np.uint8]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "nowhere")
    with pytest.raises(DataUnavailable) as caught:
        fashion_mnist.fashion_mnist(tmp_path / "cache")
    for words in (
        *fashion_mnist.FILES,
        "127.0.0.1",
        "dataset-fashion-mnist",
        str(tmp_path / "cache" / "fashion-mnist"),
    ):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"other", mtime=0), "has SHA256"),
        (b"no gzip", "cannot be unpacked"),
        (b"", "has SHA256|cannot be unpacked"),
    ],
)
def test_a_file_with_other_content_is_refused(
    made: dict[str, NDArray[np.uint8]], tmp_path: Path, content: bytes, message: str
) -> None:
    shutil.copytree(fashion_mnist.DEBIAN, tmp_path / "fashion-mnist")
    (tmp_path / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(content)
    with pytest.raises(BadFile, match=message):
        fashion_mnist.fashion_mnist(tmp_path)
