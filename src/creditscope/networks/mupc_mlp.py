"""The residual MLP of augmented Lagrangian predictive coding: unit weights, scaled by width and depth, no biases."""

from __future__ import annotations

import math
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.networks import network
from creditscope.networks.options import features, whole
from creditscope.networks.staged import StagedNetwork


class ScaledLinear(nn.Linear):
    """scale · W x, with W ~ N(0, 1) and no bias."""

    def __init__(self, below: int, above: int, scale: float, generator: torch.Generator) -> None:
        super().__init__(below, above, bias=False)
        self.scale = scale
        nn.init.normal_(self.weight, generator=generator)

    def forward(self, input: Tensor) -> Tensor:
        """(N, below) -> (N, above)."""
        return self.scale * super().forward(input)


class ScaledBlock(nn.Module):
    """f(h) = scale · W relu(h)."""

    def __init__(self, width: int, scale: float, generator: torch.Generator) -> None:
        super().__init__()
        self.w = ScaledLinear(width, width, scale, generator)

    def forward(self, state: Tensor) -> Tensor:
        """The residual branch only."""
        out: Tensor = self.w(F.relu(state))
        return out


@network(
    "mupc_mlp",
    summary="Scaled residual MLP: Linear | blocks of ReLU, Linear | ReLU, Linear; unit weights, no biases.",
)
class ScaledResidualMLP(StagedNetwork):
    """h_0 = W_in x/√D;   h_{l+1} = h_l + W_l relu(h_l)/√(N L);   logits = W_out relu(h_L)/N.  No biases, W ~ N(0, 1).

    inputs  D features of one flattened sample, or its shape
    width   N, of the stream
    depth   number of blocks; the L of the scale counts input and output layer too, L = depth + 2
    """

    runs_stages_at_once = True

    def __init__(
        self,
        inputs: int | tuple[int, ...] = 784,
        classes: int = 10,
        *,
        width: int = 32,
        depth: int = 30,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        whole("width", width, 1)
        whole("depth", depth, 0)
        self.embed = ScaledLinear(features(inputs), width, 1 / math.sqrt(features(inputs)), generator)
        self.within = 1 / math.sqrt(width * (depth + 2))
        self.blocks = nn.ModuleList(ScaledBlock(width, self.within, generator) for _ in range(depth))
        self.head = ScaledLinear(width, classes, 1 / width, generator)

    def embedding(self, inputs: Tensor) -> Tensor:
        """The first layer, on the flattened sample; no activation."""
        out: Tensor = self.embed(inputs.flatten(1))
        return out

    def stacked_stages(self, states: Tensor) -> Tensor:
        """z_l + scale · W_l relu(z_l) for all blocks in one product."""
        weights = torch.stack([cast(ScaledBlock, block).w.weight for block in self.blocks])
        return torch.baddbmm(states, F.relu(states), weights.mT, alpha=self.within)

    def readout(self, state: Tensor) -> Tensor:
        """The head on the rectified state."""
        out: Tensor = self.head(F.relu(state))
        return out
