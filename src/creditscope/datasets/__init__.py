"""Datasets as tensors with a checksum; one file per dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from creditscope.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from creditscope.datasets.tensors import Dataset

L = TypeVar("L", bound="Callable[..., Dataset]")


class Loader(Protocol):
    """A function of the cache folder (None: the default one) and of the dataset's own keyword options."""

    summary: str
    revision: int

    def __call__(self, folder: Path | None = None, **options: Any) -> Dataset:
        """Fetch the files if they are missing, check them, and read them."""
        ...


datasets: Registry[Loader] = Registry("dataset", __name__)


def dataset(name: str, *, summary: str, revision: int = 1) -> Callable[[L], L]:
    """Register a loader; raise `revision` when a fix changes its tensors."""

    def enter(load: L) -> L:
        loader = cast(Loader, load)
        loader.summary, loader.revision = summary, revision
        datasets.add(name, loader)
        return load

    return enter
