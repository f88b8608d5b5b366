"""torchvision without its compiled operations: two of them are declared before it is imported for the first time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


def declare_operations() -> torch.library.Library:
    """The two operations, declared as long as the library that is returned is kept."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return library


@pytest.fixture(scope="session", autouse=True)
def declared_operations() -> Iterator[None]:
    """timm, BioTorch and transformers import torchvision, which registers fake forms of operations it does not have."""
    library = declare_operations()
    yield
    del library
