"""ρ: correlation of predicted and measured loss changes when a state moves in random directions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from creditscope.probes.images import ROWS, Piece, lengths, losses_from, sizes, totals
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace

DIRECTIONS = 32  # per image
STEP = 1e-3  # of a state's own norm, or absolute as published


class Correlation:
    """Predicted and measured changes of the loss at one layer, predicted by the credit and by the gradient."""

    def __init__(self) -> None:
        self._credit: list[Tensor] = []
        self._gradient: list[Tensor] = []
        self._measured: list[Tensor] = []

    def add(self, credit: Tensor, gradient: Tensor, measured: Tensor) -> None:
        """One batch of pairs."""
        for kept, values in ((self._credit, credit), (self._gradient, gradient), (self._measured, measured)):
            kept.append(values.double().flatten().cpu())

    def rho(self) -> float:
        """ρ of the credit; NaN where no state could be moved."""
        return pearson(torch.cat(self._credit), torch.cat(self._measured)) if self._measured else math.nan

    def rho_bp(self) -> float:
        """ρ of the backprop gradient in the same setting."""
        return pearson(torch.cat(self._gradient), torch.cat(self._measured)) if self._measured else math.nan


def perturb(
    stream: Stream,
    piece: Piece,
    trace: Trace,
    layer: int,
    into: Correlation,
    *,
    absolute: bool,
    generator: torch.Generator,
    loss_fn: LossFunction,
) -> None:
    """⟨a, ε v⟩ and ℓ(h + ε v) - ℓ(h) for 32 random unit directions v per image.

    ε = 1e-3·‖h‖ of each image, or 1e-3 as published.
    """
    state = trace.hiddens[layer]
    credit, gradient = (side[layer].to(state.dtype) for side in (piece.credit, piece.gradients))
    step = torch.full_like(sizes(credit), STEP) if absolute else STEP * lengths(stream, state)
    copies = max(1, min(DIRECTIONS, ROWS // len(piece)))
    for start in range(0, DIRECTIONS, copies):
        count = min(copies, DIRECTIONS - start)
        noise = torch.randn(count, *credit.shape, generator=generator).to(credit)
        length = sizes(noise.flatten(0, 1)).view(count, -1)
        moves = noise * (step / length).view(count, len(piece), *[1] * (credit.dim() - 1)).to(credit.dtype)
        measured = losses_from(stream, piece.batch, layer, state, moves, loss_fn) - totals(trace.losses)
        into.add((moves * credit).flatten(2).sum(2), (moves * gradient).flatten(2).sum(2), measured)


def pearson(x: Tensor, y: Tensor) -> float:
    """Pearson's correlation in float64; NaN where either side does not vary."""
    x, y = (_centred(side) for side in (x, y))
    correlation: float = ((x * y).sum() / (x.norm() * y.norm())).item()
    return correlation


def _centred(values: Tensor) -> Tensor:
    """Values minus their mean, scaled so that their squares neither over- nor underflow."""
    centred = values - values.mean()
    return centred / centred.abs().max()
