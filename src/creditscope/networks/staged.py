"""What every network of ours can do: be run stage by stage, each stage alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar, Literal, overload

import torch
from torch import Tensor, nn


class StagedNetwork(nn.Module, ABC):
    """embedding | stages | read-out.

        h_0 = embedding(x);   h_{l+1} = merge(l, h_l, f_l),  f_l = blocks[l](h_l);   logits = readout(h_L)

    A residual network merges by h_l + f_l, a plain one by f_l alone. It knows nothing of methods: autograd on it is
    always the true gradient.
    """

    name: ClassVar[str]
    revision: ClassVar[int] = 1
    residual: bool = True
    token: Literal["first", "mean", "all"] | int = "first"  # which vector stands for a state with tokens
    blocks: nn.ModuleList

    @abstractmethod
    def embedding(self, inputs: Tensor) -> Tensor:
        """h_0 of a batch."""

    @abstractmethod
    def readout(self, state: Tensor) -> Tensor:
        """Logits (N, classes) from the deepest state."""

    def branch(self, index: int, state: Tensor) -> Tensor:
        """f_l(h_l): what block l adds to the stream, or, in a plain network, the next state."""
        out: Tensor = self.blocks[index](state)
        return out

    def merge(self, index: int, state: Tensor, branch: Tensor) -> Tensor:
        """h_{l+1} from h_l and f_l."""
        return state + branch if self.residual else branch

    @property
    def depth(self) -> int:
        """L, the number of blocks."""
        return len(self.blocks)

    def states(self, inputs: Tensor) -> list[Tensor]:
        """[h_0 .. h_L] of one forward pass."""
        hiddens = [self.embedding(inputs)]
        for index in range(self.depth):
            hiddens.append(self.merge(index, hiddens[-1], self.branch(index, hiddens[-1])))
        return hiddens

    @overload
    def forward(self, inputs: Tensor, return_hidden: Literal[False] = False) -> Tensor: ...
    @overload
    def forward(self, inputs: Tensor, return_hidden: Literal[True]) -> tuple[Tensor, list[Tensor]]: ...
    def forward(self, inputs: Tensor, return_hidden: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Logits, with [h_0 .. h_L] on request (the published contract)."""
        hiddens = self.states(inputs)
        logits = self.readout(hiddens[-1])
        return (logits, hiddens) if return_hidden else logits


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draw the weights of every Linear and Conv2d from `generator`, with PyTorch's own default distribution.

    U(-1/√fan_in, 1/√fan_in) for weights and biases, in the order of `module.modules()`: the seed fixes every bit.
    """
    for layer in module.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            bound = 1 / math.sqrt(layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
            if layer.bias is not None:
                nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
