"""CIFAR-100: 32 x 32 colour images in a hundred classes, from the official binary archive."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from creditscope.datasets import dataset
from creditscope.datasets.cache import Checksum, cache_folder, obtain, unfinished
from creditscope.datasets.cifar_binary import Archive, fetch_and_unpack, read_records, unpack
from creditscope.datasets.tensors import Dataset
from creditscope.errors import BadFile

ARCHIVE = Archive(
    name="cifar-100-binary.tar.gz",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
    checksum=Checksum("md5", "03b5dce01913d631647c71ecec9e9cb8"),
    folder="cifar-100-binary",
    members=("train.bin", "test.bin"),
)
# Only the archive has a published checksum; its members get theirs when unpacked, so that later damage is noticed.
SUMS = "SHA256SUMS"


@dataset(
    "cifar100",
    summary="50,000 training and 10,000 test images (3, 32, 32) in 100 classes; cropped and mirrored in training.",
)
def cifar100(folder: Path | None = None) -> Dataset:
    """50,000 training and 10,000 test images (3, 32, 32) in 100 classes; training batches are cropped and mirrored.

    Krizhevsky (2009).
    """
    home = cache_folder(folder)
    binaries = home / ARCHIVE.folder
    if not all((binaries / name).exists() for name in (*ARCHIVE.members, SUMS)):
        _obtain(home)
    sums = _read_sums(binaries / SUMS)
    train, test = (read_records([binaries / name], [sums[name]], label_bytes=2) for name in ARCHIVE.members)
    return Dataset(
        "cifar100",
        train=train,
        test=test,
        classes=100,
        mean=(0.5071, 0.4865, 0.4409),
        std=(0.2673, 0.2564, 0.2762),
        crop=4,
        flip=True,
    )


def _obtain(home: Path) -> None:
    sources = {
        f"{ARCHIVE.name} in the folder": partial(unpack, ARCHIVE, home),
        ARCHIVE.url: partial(fetch_and_unpack, ARCHIVE, home),
    }
    obtain("cifar100", home, sources, f"Put {ARCHIVE.name} ({ARCHIVE.checksum}, from {ARCHIVE.url}) into {home}.")
    _write_sums(home / ARCHIVE.folder)


def _write_sums(binaries: Path) -> None:
    """Write the checksum of every file in the format of sha256sum."""
    sums = {name: Checksum("sha256", "").of_file(binaries / name).value for name in ARCHIVE.members}
    with unfinished(binaries / SUMS) as part:
        part.write_text("".join(f"{value}  {name}\n" for name, value in sums.items()), encoding="utf-8")


def _read_sums(path: Path) -> dict[str, Checksum]:
    try:
        pairs = [line.split() for line in path.read_text(encoding="utf-8").splitlines()]
        sums = {name: Checksum("sha256", value) for value, name in pairs}
        return {name: sums[name] for name in ARCHIVE.members}
    except (ValueError, KeyError) as error:  # text that is not UTF-8 is a ValueError too
        raise BadFile(
            f"{path} is damaged: it should have one checksum and name per line, for {' and '.join(ARCHIVE.members)}.\n"
            "The images cannot be checked, so results on them could not be trusted. Delete it and run again."
        ) from error
