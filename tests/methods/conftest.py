"""Small networks of every kind, in float64 and evaluation mode, with a batch that fits them all."""

from __future__ import annotations

import pytest
import torch

from creditscope.batch import Batch
from creditscope.networks.build import build
from creditscope.networks.staged import StagedNetwork
from creditscope.options import Option

SHAPE, CLASSES = (3, 8, 8), 4
OPTIONS: dict[str, dict[str, Option]] = {
    "resmlp": {"d": 12, "depth": 3},
    "student_net": {"d": 9, "depth": 3},
    "vit_mini": {"d": 8, "depth": 2, "heads": 2},
    "small_cnn": {"channels": 3, "width": 11},
    "small_resnet": {"channels": 3, "depth": 4},
    "mlp": {"widths": (12, 9), "depth": 3, "activation": "tanh"},
}


def small(name: str, **options: Option) -> StagedNetwork:
    """A small network in float64, with BatchNorm statistics that are not the trivial ones."""
    network = build(name, SHAPE, CLASSES, 5, **{**OPTIONS[name], **options}).double().train()
    with torch.no_grad():
        network(images(9))
    return network.eval()


def images(seed: int, count: int = 5) -> torch.Tensor:
    """Standard normal images."""
    return torch.randn(count, *SHAPE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture(params=list(OPTIONS))
def network(request: pytest.FixtureRequest) -> StagedNetwork:
    """Each kind in turn."""
    return small(request.param)


@pytest.fixture
def batch() -> Batch:
    """Five images."""
    return Batch(images(7), torch.tensor([0, 3, 1, 1, 2]))


@pytest.fixture
def generator() -> torch.Generator:
    """The source of all feedback in a test."""
    return torch.Generator().manual_seed(11)
