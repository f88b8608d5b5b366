"""Interventions: how the loss responds to moved states, as ρ and nudging per layer, in float64 where possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import FunctionFailed
from creditscope.evidence.credit import Interventions, Layers
from creditscope.probes.images import Piece, lengths, losses_from, per_image, sizes, totals
from creditscope.probes.perturbation import Correlation, perturb
from creditscope.progress import steps
from creditscope.stream.isolation import as_float64, in_float64
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace, capture

NUDGE = 0.01  # η

Both = tuple[list[Correlation], tuple[Layers, Layers]]


def intervene(
    stream: Stream, pieces: Sequence[Piece], loss_fn: LossFunction, generator: torch.Generator
) -> Interventions:
    """ρ and nudging with relative steps in float64, and ρ with the published absolute step in the model's precision."""
    try:
        with in_float64(stream.model):
            relative, nudges = _relative(stream, pieces, as_float64, loss_fn, generator)
        precision = "float64"
    except (FunctionFailed, RuntimeError, TypeError):  # a layer requires its own precision
        relative, nudges = _relative(stream, pieces, lambda batch: batch, loss_fn, generator)
        precision = "the model's own precision"
    absolute = _correlations(stream, pieces, loss_fn, generator)
    return Interventions(
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
    changes: dict[bool, list[list[Tensor]]] = {False: [[] for _ in layers], True: [[] for _ in layers]}
    for piece in steps("moving states in proportion", pieces):
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
    """ρ as published: ε = 1e-3 at every scale, losses in the model's own precision."""
    pairs = [Correlation() for _ in pieces[0].credit]
    for piece in steps("moving states by the published step", pieces):
        trace = capture(stream, piece.batch, loss_fn)
        for layer, into in filter(lambda pair: stream.certain(pair[0]), enumerate(pairs)):
            perturb(stream, piece, trace, layer, into, absolute=True, generator=generator, loss_fn=loss_fn)
    return pairs


def nudge(stream: Stream, piece: Piece, trace: Trace, layer: int, *, absolute: bool, loss_fn: LossFunction) -> Tensor:
    """ℓ(h - η·rms(h)·a/rms(a)) - ℓ(h) of each sample; `absolute` leaves rms(h) out; NaN where credit is zero."""
    state = trace.hiddens[layer]
    credit = piece.credit[layer].to(state.dtype)
    numbers = credit[0].numel()
    rms = sizes(credit) / numbers**0.5
    scale = torch.ones_like(rms) if absolute else lengths(stream, state) / numbers**0.5
    direction = torch.where(per_image(rms, credit) > 0, credit / per_image(rms, credit).to(credit.dtype), 0.0)
    move = -NUDGE * per_image(scale, credit).to(credit.dtype) * direction
    after = losses_from(stream, piece.batch, layer, state, move[None], loss_fn)[0]
    change = (after - totals(trace.losses)).double()
    return torch.where(rms > 0, change, torch.nan).cpu()
