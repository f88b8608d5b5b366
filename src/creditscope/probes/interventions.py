"""How does the loss answer when the states are moved?  ρ and nudging at every layer, in float64 where it can be."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from creditscope.batch import Batch
from creditscope.evidence.credit import Layers, Moves
from creditscope.probes.images import Piece
from creditscope.probes.nudging import nudge
from creditscope.probes.perturbation import Correlation, perturb
from creditscope.stream.isolation import as_float64, in_float64
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, capture

Both = tuple[list[Correlation], tuple[Layers, Layers]]


def moved(stream: Stream, pieces: Sequence[Piece], loss_fn: LossFunction, generator: torch.Generator) -> Moves:
    """ρ and nudging by relative steps in float64, and ρ by the published absolute step in the model's own precision."""
    try:
        with in_float64(stream.model):
            relative, nudges = _relative(stream, pieces, as_float64, loss_fn, generator)
        precision = "float64"
    except (RuntimeError, TypeError):  # a layer insists on its own precision
        relative, nudges = _relative(stream, pieces, lambda batch: batch, loss_fn, generator)
        precision = "the model's own precision"
    absolute = _correlations(stream, pieces, loss_fn, generator)
    return Moves(
        rho=tuple(layer.rho() for layer in relative),
        rho_bp=tuple(layer.rho_bp() for layer in relative),
        rho_absolute=tuple(layer.rho() for layer in absolute),
        rho_absolute_bp=tuple(layer.rho_bp() for layer in absolute),
        nudge=nudges[0],
        nudge_absolute=nudges[1],
        precision=precision,
    )


def _relative(
    stream: Stream,
    pieces: Sequence[Piece],
    widened: Callable[[Batch], Batch],
    loss_fn: LossFunction,
    generator: torch.Generator,
) -> Both:
    layers = range(len(pieces[0].credit))
    pairs = [Correlation() for _ in layers]
    changes: dict[bool, list[list[torch.Tensor]]] = {False: [[] for _ in layers], True: [[] for _ in layers]}
    for piece in pieces:
        wide = Piece(widened(piece.batch), piece.credit, piece.gradients)
        trace = capture(stream, wide.batch, loss_fn)
        for layer in filter(stream.certain, layers):
            perturb(stream, wide, trace, layer, pairs[layer], absolute=False, generator=generator, loss_fn=loss_fn)
            for absolute, kept in changes.items():
                kept[layer].append(nudge(stream, wide, trace, layer, absolute=absolute, loss_fn=loss_fn))
    relative, absolute_ones = (
        tuple(torch.cat(parts).nanmean().item() if parts else math.nan for parts in changes[absolute])
        for absolute in (False, True)
    )
    return pairs, (relative, absolute_ones)


def _correlations(
    stream: Stream, pieces: Sequence[Piece], loss_fn: LossFunction, generator: torch.Generator
) -> list[Correlation]:
    """ρ as published: ε = 1e-3 whatever the scale, losses in the model's own precision."""
    pairs = [Correlation() for _ in pieces[0].credit]
    for piece in pieces:
        trace = capture(stream, piece.batch, loss_fn)
        for layer, into in filter(lambda pair: stream.certain(pair[0]), enumerate(pairs)):
            perturb(stream, piece, trace, layer, into, absolute=True, generator=generator, loss_fn=loss_fn)
    return pairs
