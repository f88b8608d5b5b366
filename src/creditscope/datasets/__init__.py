"""Datasets as tensors with a checksum; one file per dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from creditscope.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from creditscope.datasets.dataset import Dataset


class Loader(Protocol):
    """A function of the cache folder (None: the default one) and of the dataset's own keyword options."""

    revision: int

    def __call__(self, folder: Path | None = None) -> Dataset: ...


datasets: Registry[Loader] = Registry("dataset", __name__)


def dataset(name: str, *, revision: int = 1) -> Callable[[Callable[..., Dataset]], Callable[..., Dataset]]:
    """Register a loader; raise `revision` when a fix changes its tensors."""

    def enter(load: Callable[..., Dataset]) -> Callable[..., Dataset]:
        load.revision = revision  # type: ignore[attr-defined]
        datasets.add(name, load)  # type: ignore[arg-type]
        return load

    return enter
