"""Nudging: does the loss fall when every state takes a small step against its credit?"""

from __future__ import annotations

import torch
from torch import Tensor

from creditscope.probes.images import Piece, losses_from, per_image, sizes, totals
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace

STEP = 0.01  # η


def nudge(stream: Stream, piece: Piece, trace: Trace, layer: int, *, absolute: bool, loss_fn: LossFunction) -> Tensor:
    """ℓ(h - η·rms(h)·a/rms(a)) - ℓ(h) of each sample; `absolute` leaves rms(h) out; NaN where credit is zero."""
    state = trace.hiddens[layer]
    credit = piece.credit[layer].to(state.dtype)
    numbers = credit[0].numel()
    rms = sizes(credit) / numbers**0.5
    scale = torch.ones_like(rms) if absolute else sizes(stream.vectors(state)) / numbers**0.5
    direction = torch.where(per_image(rms, credit) > 0, credit / per_image(rms, credit).to(credit.dtype), 0.0)
    move = -STEP * per_image(scale, credit).to(credit.dtype) * direction
    after = losses_from(stream, piece.batch, layer, state, move[None], loss_fn)[0]
    change = (after - totals(trace.losses)).double()
    return torch.where(rms > 0, change, torch.nan).cpu()
