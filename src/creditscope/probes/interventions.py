"""Interventions: how the loss responds to moved states, as ρ and nudging per layer, in float64 where possible."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from creditscope.batch import Batch, first_images
from creditscope.errors import FunctionFailed
from creditscope.evidence.credit import Interventions, Layers
from creditscope.machine import machine_error
from creditscope.probes.correlation import Estimate, Pairs
from creditscope.probes.images import Piece, lengths, losses_from, per_image, sizes, totals
from creditscope.probes.perturbation import Widened, correlate
from creditscope.progress import steps
from creditscope.stream.isolation import as_float64, in_float64
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace, capture

NUDGE = 0.01  # η
TRIAL = 64  # images on which the model's own precision is compared with float64
TOLERATED = 1e-3  # difference of ρ for which float64 is not worth its time
WIDE, OWN = "float64", "the model's own precision"

NONE = Estimate(math.nan, math.nan)


def intervene(
    stream: Stream, pieces: Sequence[Piece], loss_fn: LossFunction, generator: torch.Generator
) -> Interventions:
    """ρ and nudging with relative steps, and ρ with the published absolute step in the model's precision."""
    precision = _precision(stream, pieces, loss_fn, generator)
    wide = precision == WIDE
    widened: Widened = as_float64 if wide else _same
    with in_float64(stream.model) if wide else nullcontext():
        relative = correlate(stream, pieces, widened, loss_fn, generator, absolute=False)
        nudges = _nudges(stream, pieces, widened, loss_fn)
    absolute = correlate(stream, pieces, _same, loss_fn, generator, absolute=True)
    (rho, rho_bp), (rho_absolute, rho_absolute_bp) = map(_estimates, (relative, absolute))
    return Interventions(
        rho=_values(rho),
        rho_bp=_values(rho_bp),
        rho_absolute=_values(rho_absolute),
        rho_absolute_bp=_values(rho_absolute_bp),
        nudge=nudges[0],
        nudge_absolute=nudges[1],
        precision=precision,
        directions=_directions(relative),
        directions_absolute=_directions(absolute),
        error=_largest(rho),
        error_absolute=_largest(rho_absolute),
    )


def _precision(stream: Stream, pieces: Sequence[Piece], loss_fn: LossFunction, generator: torch.Generator) -> str:
    """float64, unless it fails or moves no ρ of a few images by 1e-3."""
    few = [_few(pieces[0])]
    start = generator.get_state()
    try:
        with in_float64(stream.model):
            wide = _estimates(correlate(stream, few, as_float64, loss_fn, generator, absolute=False))
    except (FunctionFailed, RuntimeError, TypeError) as error:  # a layer requires its own precision
        if machine_error(error) is not None:
            raise
        return OWN
    finally:
        generator.set_state(start)
    if sum(map(len, pieces)) <= TRIAL:
        return WIDE
    own = _estimates(correlate(stream, few, _same, loss_fn, generator, absolute=False))
    generator.set_state(start)
    sides = zip((*_values(wide[0]), *_values(wide[1])), (*_values(own[0]), *_values(own[1])), strict=True)
    same = all(abs(a - b) < TOLERATED or (math.isnan(a) and math.isnan(b)) for a, b in sides)
    return f"{OWN} (float64 moves no ρ of {len(few[0])} images by {TOLERATED:g})" if same else WIDE


def _few(piece: Piece) -> Piece:
    """The first images of a piece."""
    kept = slice(min(TRIAL, len(piece)))
    vectors = (tuple(side[kept] for side in sides) for sides in (piece.credit, piece.gradients))
    return Piece(first_images(piece.batch, min(TRIAL, len(piece))), *vectors)


def _same(batch: Batch) -> Batch:
    return batch


def _nudges(stream: Stream, pieces: Sequence[Piece], widened: Widened, loss_fn: LossFunction) -> tuple[Layers, Layers]:
    """The mean change of the loss after a relative and after an absolute nudge, per layer."""
    layers = range(len(pieces[0].credit))
    changes: dict[bool, list[list[Tensor]]] = {absolute: [[] for _ in layers] for absolute in (False, True)}
    for piece in steps("nudging states against credit", pieces):
        wide = Piece(widened(piece.batch), piece.credit, piece.gradients)
        trace = capture(stream, wide.batch, loss_fn)
        for layer in filter(stream.certain, layers):
            for absolute, kept in changes.items():
                kept[layer].append(nudge(stream, wide, trace, layer, absolute=absolute, loss_fn=loss_fn))
    relative, published = (
        tuple(torch.cat(parts).nanmean().item() if parts else math.nan for parts in changes[absolute])
        for absolute in (False, True)
    )
    return relative, published


def _estimates(pairs: Sequence[Pairs | None]) -> tuple[list[Estimate], list[Estimate]]:
    """ρ of the credit and of the gradient, per layer."""
    return [NONE if p is None else p.rho() for p in pairs], [NONE if p is None else p.rho_bp() for p in pairs]


def _values(estimates: Sequence[Estimate]) -> Layers:
    return tuple(one.value for one in estimates)


def _directions(pairs: Sequence[Pairs | None]) -> tuple[int, ...]:
    return tuple(0 if p is None else len(p.measured) for p in pairs)


def _largest(estimates: Sequence[Estimate]) -> float:
    """The largest error of the layers whose ρ is defined; NaN if none is."""
    return max((one.error for one in estimates if not math.isnan(one.value)), default=math.nan)


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
