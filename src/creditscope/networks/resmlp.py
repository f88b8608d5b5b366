"""The residual MLP of the published audit."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.networks import network
from creditscope.networks.options import depth_of, features, whole, within
from creditscope.networks.staged import StagedNetwork, initialise


class ResidualBlock(nn.Module):
    """f(h) = w2(GELU(w1(ln(h)))), with w2 drawn small so that the stream starts almost as the identity."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.w1 = nn.Linear(d, d)
        self.w2 = nn.Linear(d, d)

    def forward(self, state: Tensor) -> Tensor:
        """The residual branch only."""
        out: Tensor = self.w2(F.gelu(self.w1(self.ln(state))))
        return out


@network("resmlp", summary="Residual MLP: Linear | L x (LayerNorm, Linear, GELU, Linear) | LayerNorm, Linear.")
class ResidualMLP(StagedNetwork):
    """embed Linear | L x (LayerNorm, Linear, GELU, Linear) | LayerNorm, Linear.

    inputs     features of one flattened sample, or its shape
    d, depth   width of the stream and number of blocks L; 0 blocks is the shallow control
    terminal_ln  False removes the LayerNorm before the read-out
    residual   False removes the addition: h_{l+1} = f_l(h_l)
    w2_std     standard deviation of w2's weights at initialisation
    """

    def __init__(
        self,
        inputs: int | tuple[int, ...] = 3072,
        classes: int = 10,
        *,
        d: int = 256,
        depth: int = 4,
        terminal_ln: bool = True,
        residual: bool = True,
        w2_std: float = 0.01,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.residual, self.terminal_layernorm = residual, terminal_ln
        whole("d", d, 1)
        within("w2_std", w2_std, 0.0, math.inf)
        self.embed = nn.Linear(features(inputs), d)
        blocks = [ResidualBlock(d) for _ in range(depth_of(depth))]
        self.blocks = nn.ModuleList(blocks)
        self.out_ln = nn.LayerNorm(d) if terminal_ln else nn.Identity()
        self.out_head = nn.Linear(d, classes)
        initialise(self, generator)
        for block in blocks:
            nn.init.normal_(block.w2.weight, 0.0, w2_std, generator=generator)
            nn.init.zeros_(block.w2.bias)

    def embedding(self, inputs: Tensor) -> Tensor:
        """Linear on the flattened sample."""
        out: Tensor = self.embed(inputs.flatten(1))
        return out

    def readout(self, state: Tensor) -> Tensor:
        """Terminal LayerNorm, then the head."""
        out: Tensor = self.out_head(self.out_ln(state))
        return out
