"""Nulls: the Γ that chance alone gives, on the same images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Literal

import torch
from torch import Tensor

from creditscope.credit import CreditSource
from creditscope.evidence.alignment import MeanCosine, cosines_with, unit_vectors
from creditscope.evidence.credit import Layers, Null
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
    totals, own, random = MeanCosine(), MeanCosine(), MeanCosine()
    for piece in pieces:
        units = [unit_vectors(gradient) for gradient in piece.gradients]
        own.add(cosines_with(units, piece.credit))
        random.add(cosines_with(units, [torch.randn(u.shape, generator=generator).to(u) for u in units]))
        totals.add([cosines_with(units, [stream.vectors(a) for a in signals]) for signals in drawn(piece)])
    by_draw = totals.means()
    return Null(kind, tuple(map(_plain, by_draw)), _plain(own.means()), _plain(random.means()), sum(map(len, pieces)))


def _drawing(
    source: CreditSource, generator: torch.Generator
) -> tuple[Literal["fresh feedback", "shuffled labels"], Callable[[Piece], Iterator[Signals]]]:
    """The kind of null that a source allows, and a function that gives the signals of all draws for one batch."""
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


def _plain(values: Tensor) -> Layers:
    return tuple(values.tolist())
