"""Nulls: how large would Γ be by chance, on the same images?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Literal

import torch
from torch import Tensor

from creditscope.credit import CreditSource
from creditscope.evidence.credit import Layers, Null
from creditscope.evidence.norms import norm_table
from creditscope.probes.images import Piece
from creditscope.probes.label_leak import with_labels
from creditscope.stream.states import Stream

DRAWS = 20

Signals = tuple[Tensor, ...]


def null(stream: Stream, source: CreditSource, pieces: Sequence[Piece], generator: torch.Generator) -> Null:
    """Γ of 20 fresh draws of the feedback; for a rule without feedback, of credit for permuted labels.

    One trace serves all draws: the gradients are normalised once, and a rule may share one forward pass.
    """
    kind, drawn = _drawing(source, generator)
    totals, own, random = _Mean(), _Mean(), _Mean()
    for piece in pieces:
        units = [_unit(gradient) for gradient in piece.gradients]
        own.add(_cosines(piece.credit, units))
        random.add(_cosines([torch.randn(u.shape, generator=generator).to(u) for u in units], units))
        draws = (_cosines([stream.vectors(a) for a in signals], units) for signals in drawn(piece))
        totals.add(torch.stack(list(draws)))
    by_draw = totals.means()
    return Null(kind, tuple(map(_plain, by_draw)), _plain(own.means()), _plain(random.means()), sum(map(len, pieces)))


def _drawing(
    source: CreditSource, generator: torch.Generator
) -> tuple[Literal["fresh feedback", "shuffled labels"], Callable[[Piece], Iterator[Signals]]]:
    """What kind of null a source allows, and the signals of all its draws on one batch."""
    fresh = [drawn for _ in range(DRAWS) if (drawn := source.redrawn(generator)) is not None]
    if fresh:
        return "fresh feedback", lambda piece: source.signals_under(piece.batch, fresh)

    def shuffled(piece: Piece) -> Iterator[Signals]:
        labels = piece.batch.labels
        for _ in repeat(None, DRAWS):
            order = torch.randperm(len(labels), generator=generator).to(labels.device)
            with torch.enable_grad():
                yield source.signals(with_labels(piece.batch, labels[order]))

    return "shuffled labels", shuffled


class _Mean:
    """Sums and counts of the cosines that are defined, batch by batch; samples are the last axis."""

    def __init__(self) -> None:
        self._sum: Tensor | float = 0.0
        self._count: Tensor | float = 0.0

    def add(self, cosines: Tensor) -> None:
        self._sum = self._sum + cosines.nansum(-1)
        self._count = self._count + (~cosines.isnan()).sum(-1)

    def means(self) -> Tensor:
        return (torch.as_tensor(self._sum) / torch.as_tensor(self._count)).cpu()


def _unit(gradient: Tensor) -> Tensor:
    """g/‖g‖ per row, without under- or overflow; NaN where there is no gradient."""
    wide = gradient.double()
    wide = wide / wide.abs().amax(-1, keepdim=True)
    unit: Tensor = wide / wide.norm(dim=-1, keepdim=True)
    return unit if gradient.dtype == torch.float64 else unit.float()


def _cosines(credit: Sequence[Tensor], units: Sequence[Tensor]) -> Tensor:
    """⟨a, g/‖g‖⟩/‖a‖, (layers, rows): no product of two small numbers, so that float32 is enough."""
    dots = [torch.linalg.vecdot(a.to(unit), unit).flatten() for a, unit in zip(credit, units, strict=True)]
    return torch.stack(dots) / norm_table(list(credit))


def _plain(values: Tensor) -> Layers:
    return tuple(values.tolist())
