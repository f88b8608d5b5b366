"""One forward pass of any model in one graph, differentiated stage by stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor, nn

from creditscope.methods.membership import Members
from creditscope.networks.staged import Asked, Pieces


@dataclass(frozen=True, slots=True)
class GraphPieces(Pieces):
    """One forward pass in one graph; no gradient crosses a border because each product asks for one stage only.

    parts    the parameters of each stage: autograd never leaves a stage on its way to them
    anchors  the tensors to differentiate by for h_0..h_L
    tied     parameters of the read-out that the embedding uses too
    """

    parts: Members
    anchors: Sequence[Tensor]
    oriented: Callable[[Tensor, int], Tensor]
    tied: frozenset[str]

    def through_readout(self, cotangent: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """As for pieces; a tied parameter gets the contribution of the read-out alone."""
        tied = {name: p for name, p in self.outside.items() if name in self.tied}
        products = self._above_the_borders(cotangent, tied)
        alone = {name: p for name, p in self.outside.items() if name not in self.tied}
        slope, *others = torch.autograd.grad(self.logits, [self.deepest, *alone.values()], cotangent, allow_unused=True)
        products |= {name: p for name, p in zip(alone, others, strict=True) if p is not None}
        return self.oriented(slope, len(self.anchors) - 1), products

    def _above_the_borders(self, cotangent: Tensor, tied: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        """Products along the paths that pass no state: what would pass one is set to zero there."""
        if not tied:
            return {}
        hooks = [anchor.register_hook(torch.zeros_like) for anchor in self.anchors]  # type: ignore[no-untyped-call]
        try:
            products = torch.autograd.grad(self.logits, list(tied.values()), cotangent, retain_graph=True)
        finally:
            for hook in hooks:
                hook.remove()
        return dict(zip(tied, products, strict=True))

    def products(self, asked: Sequence[Asked], learning: Mapping[str, nn.Parameter]) -> dict[str, Tensor]:
        """One call per stage, restricted to its own parameters."""
        gradients: dict[str, Tensor] = {}
        for stage, own in enumerate(self.parts.stages):
            named = {name: p for name, p in learning.items() if name in own}
            gradients |= Pieces.products(self, [one for one in asked if one.stage == stage], named)
        return gradients


class Branches(Sequence[Tensor]):
    """f_0..f_{L-1}, computed when they are asked for: h_{l+1} - h_l where the stage adds to h_l, else h_{l+1}."""

    def __init__(self, states: Sequence[Tensor], residual: Sequence[bool]) -> None:
        self._states, self._residual = states, residual

    def __len__(self) -> int:
        return len(self._residual)

    @overload
    def __getitem__(self, index: int) -> Tensor: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Tensor]: ...
    def __getitem__(self, index: int | slice) -> Tensor | Sequence[Tensor]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        below, above = self._states[index], self._states[index + 1]
        return above - below if self._residual[index] else above
