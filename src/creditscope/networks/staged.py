"""The common form of our networks: embedding, stages and read-out, each of which can be run alone."""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar, Literal, overload

import torch
from torch import Tensor, nn


class Seeded(ABCMeta):
    """Networks whose construction leaves PyTorch's global generator as it was.

    nn.Linear and nn.Conv2d draw from the global generator while they are made, before `initialise` draws again from
    ours. Unrestored, building a control would change the random numbers of the run around it.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Make the network, then put the global generator back."""
        with torch.random.fork_rng(devices=[]):
            return super().__call__(*args, **kwargs)


class StagedNetwork(nn.Module, metaclass=Seeded):
    """embedding | stages | read-out.

        h_0 = embedding(x);   h_{l+1} = merge(l, h_l, f_l),  f_l = blocks[l](h_l);   logits = readout(h_L)

    A residual network merges by h_l + f_l, a plain one by f_l alone. Two promises that local rules rely on: all
    weights of stage l are in blocks[l], and f_l enters h_{l+1} unchanged, ∂h_{l+1}/∂f_l = I. It knows nothing of
    methods: autograd on it is always the true gradient.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    revision: ClassVar[int] = 1
    residual: bool = True
    token: Literal["first", "mean", "all"] | int = "first"  # which vector stands for a state with tokens
    terminal_layernorm: bool = False  # whether a LayerNorm precedes the read-out
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
