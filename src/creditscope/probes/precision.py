"""Precision: compares the gradient with the same gradient in float64."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from creditscope.errors import FunctionFailed
from creditscope.evidence.alignment import exact_cosines
from creditscope.evidence.credit import Precision
from creditscope.machine import machine_error
from creditscope.probes.images import Piece
from creditscope.stream.isolation import as_float64, in_float64
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, capture
from creditscope.verdict import Missing, Reason


def precision(stream: Stream, pieces: Sequence[Piece], loss_fn: LossFunction) -> Precision | Missing:
    """Median over images of cos(g, g in float64) per layer, from the same weights and inputs.

    A gradient that rounding made zero or infinite while float64 has one counts as cosine 0: its direction is lost.
    """
    dtype = str(pieces[0].gradients[0].dtype).removeprefix("torch.")
    cosines: list[list[Tensor]] = [[] for _ in pieces[0].gradients]
    try:
        with in_float64(stream.model):
            for piece in pieces:
                trace = capture(stream, as_float64(piece.batch), loss_fn)
                for layer, gradient in enumerate(trace.gradients):
                    cosines[layer].append(_agreement(piece.gradients[layer], stream.vectors(gradient)).cpu())
    except (FunctionFailed, RuntimeError, TypeError) as error:
        if machine_error(error) is not None:
            raise
        text = f"the model cannot be run in float64 ({str(error).splitlines()[0]})"
        return Missing(Reason.NOT_POSSIBLE, text)
    return Precision(tuple(_median(torch.cat(layer)) for layer in cosines), dtype)


def _agreement(own: Tensor, wide: Tensor) -> Tensor:
    """cos(g, g in float64) per row, 0 where only float64 has a gradient, NaN where neither has one."""
    cosines = exact_cosines(own, wide)
    lost = ((own == 0).all(-1) | ~own.isfinite().all(-1)) & (wide != 0).any(-1) & wide.isfinite().all(-1)
    return torch.where(lost, 0.0, cosines).flatten()


def _median(cosines: Tensor) -> float:
    """Over the images that have a gradient in float64; NaN if none has."""
    return cosines.nanmedian().item()
