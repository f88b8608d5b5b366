"""The arguments of F.conv2d, its padding as zeros around the input, and a convolution as a product with patches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Convolution:
    """One call of F.conv2d, with padding = "same" or "valid" already applied to its input."""

    input: Tensor
    weight: Tensor
    bias: Tensor | None
    stride: Any
    padding: Any
    dilation: Any
    groups: int

    @classmethod
    def of(
        cls,
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Convolution:
        """The call with these arguments of F.conv2d."""
        if padding == "same":
            steps = (dilation, dilation) if isinstance(dilation, int) else dilation
            total = [step * (size - 1) for step, size in zip(steps, weight.shape[2:], strict=True)]
            input = F.pad(input, [side for both in reversed(total) for side in (both // 2, both - both // 2)])
        return cls(input, weight, bias, stride, 0 if isinstance(padding, str) else padding, dilation, groups)

    def patches(self) -> Tensor:
        """What the unfolded weight is multiplied with, (samples x positions x groups, C/groups·k²)."""
        columns = F.unfold(
            self.input, self.weight.shape[2:], dilation=self.dilation, padding=self.padding, stride=self.stride
        )
        return columns.view(len(self.input), self.groups, self.weight[0].numel(), -1).transpose(2, 3).flatten(0, 2)
