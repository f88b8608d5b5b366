"""Evidence that a test writes down instead of measuring."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from creditscope.diagnostics import diagnostics, examine
from creditscope.evidence.records import Directions, Evidence
from creditscope.verdict import Finding


def evidence(
    hidden: Sequence[Sequence[float]] | Tensor = ((1.0,), (1.0,)),
    gradient: Sequence[Sequence[float]] | Tensor = ((1.0,), (1.0,)),
    error: Sequence[float] | Tensor = (1.0,),
    **rest: Any,
) -> Evidence:
    """Norms as (layers, images), in float64."""
    return Evidence(*(torch.as_tensor(values, dtype=torch.float64) for values in (hidden, gradient, error)), **rest)


def directions(units: Sequence[Tensor], size: int | None = 128) -> Directions:
    """The directions of one layer, repeated at two: units (groups, d)."""
    stacked = torch.stack(list(units)).double()
    zeros = int((stacked.norm(dim=1) == 0).sum())
    return Directions((stacked.sum(0),) * 2, len(stacked), (zeros,) * 2, size)


def find(name: str, given: Evidence, at: float | None = None) -> Finding:
    """One diagnostic's finding."""
    return examine(diagnostics[name], given, at)
