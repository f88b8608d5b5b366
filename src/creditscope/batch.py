"""What flows in: inputs with their labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor


class Batch(NamedTuple):
    """Inputs (a tensor (N, ...), or a tuple or dict of tensors for models that take several) and labels (N,)."""

    inputs: Any
    labels: Tensor
