"""Fashion-MNIST: 28 x 28 grey images of clothes, from a Debian package or the official files."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from creditscope.batch import Batch
from creditscope.datasets import dataset
from creditscope.datasets.cache import Checksum, cache_folder, download, obtain
from creditscope.datasets.idx import read_idx
from creditscope.datasets.tensors import Dataset

HOME = "fashion-mnist"
URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
PACKAGE = "dataset-fashion-mnist"
DEBIAN = Path("/usr/share/datasets/fashion-mnist")
# The official files by their published MD5.  Debian recompressed them: CONTENT has checksums of the same content.
FILES = {
    "train-images-idx3-ubyte.gz": Checksum("md5", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
    "train-labels-idx1-ubyte.gz": Checksum("md5", "25c81989df183df01b3e8a0aad5dffbe"),
    "t10k-images-idx3-ubyte.gz": Checksum("md5", "bef4ecab320f06d8554ea6380940ec79"),
    "t10k-labels-idx1-ubyte.gz": Checksum("md5", "bb300cfdad3c16e7a12a480ee83cd310"),
}
CONTENT = {
    "train-images-idx3-ubyte.gz": Checksum(
        "sha256", "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888"
    ),
    "train-labels-idx1-ubyte.gz": Checksum(
        "sha256", "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"
    ),
    "t10k-images-idx3-ubyte.gz": Checksum("sha256", "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b"),
    "t10k-labels-idx1-ubyte.gz": Checksum("sha256", "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34"),
}


@dataset("fashion_mnist", summary="60,000 training and 10,000 test images (1, 28, 28) in ten classes; no augmentation.")
def fashion_mnist(folder: Path | None = None, *, standardise: bool = True) -> Dataset:
    """60,000 training and 10,000 test images (1, 28, 28) in ten classes; no augmentation.

    standardise   False: pixels stay in 0..1

    Xiao, Rasul and Vollgraf (2017).
    """
    home = _home(cache_folder(folder) / HOME)
    train_images, train_labels, test_images, test_labels = (read_idx(home / name, CONTENT[name]) for name in FILES)
    train = Batch(train_images[:, None], train_labels.long())
    test = Batch(test_images[:, None], test_labels.long())
    mean, std = ((0.2860,), (0.3530,)) if standardise else ((0.0,), (1.0,))
    return Dataset("fashion_mnist", train, test, classes=10, mean=mean, std=std)


def _home(home: Path) -> Path:
    """The folder that holds all four files: the cache, or the Debian package's own, or the cache after a download."""
    for place in (home, DEBIAN):
        if all((place / name).exists() for name in FILES):
            return place
    remedy = (
        f"Put {', '.join(FILES)} into {home}, or install the Debian package {PACKAGE}, which puts them into {DEBIAN}."
    )
    obtain("fashion_mnist", home, {URL: partial(_fetch, home)}, remedy)
    return home


def _fetch(home: Path) -> None:
    for name, expected in FILES.items():
        if not (home / name).exists():
            download(f"{URL}/{name}", home / name, expected)
