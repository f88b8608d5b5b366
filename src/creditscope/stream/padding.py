"""Which zeros does a convolution want around its input?"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor


def padded(input: Tensor, weight: Tensor, padding: Any, dilation: int | tuple[int, ...]) -> tuple[Tensor, Any]:
    """The input with the zeros that padding = "same" asks for, and what is still to be padded."""
    if not isinstance(padding, str):
        return input, padding
    if padding == "valid":
        return input, 0
    steps = (dilation, dilation) if isinstance(dilation, int) else dilation
    total = [step * (size - 1) for step, size in zip(steps, weight.shape[2:], strict=True)]
    return F.pad(input, [side for both in reversed(total) for side in (both // 2, both - both // 2)]), 0
