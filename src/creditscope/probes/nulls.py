"""Nulls: the Γ of fresh feedback, and the Γ of credit for permuted labels, on the same images."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from creditscope.credit import CreditSource
from creditscope.errors import InvalidInput
from creditscope.evidence.alignment import MeanCosine, cosines_with, unit_vectors
from creditscope.evidence.credit import LabelDependence, Layers, Null
from creditscope.probes.images import Piece
from creditscope.probes.label_leak import with_labels
from creditscope.probes.source import NO_REDRAW, FunctionSource
from creditscope.progress import steps
from creditscope.stream.states import Stream
from creditscope.verdict import Missing, Reason

DRAWS = 20
PERMUTATIONS = 10
NO_FEEDBACK = Missing(Reason.NOT_APPLICABLE, "this credit has no random feedback that could be drawn again")

Signals = Sequence[Tensor]


def null(stream: Stream, source: CreditSource, pieces: Sequence[Piece], generator: torch.Generator) -> Null | Missing:
    """Γ of 20 fresh draws of the feedback from its own distribution; missing where nothing can be drawn again.

    One trace serves all draws: the gradients are normalised once, and a rule may share one forward pass.
    """
    fresh = [drawn for _ in range(DRAWS) if (drawn := source.redrawn(generator)) is not None]
    if not fresh:
        return NO_REDRAW if isinstance(source, FunctionSource) else NO_FEEDBACK
    draws, own = _gammas(stream, pieces, lambda piece: source.signals_under(piece.batch, fresh))
    return Null(draws, own, sum(map(len, pieces)))


def label_dependence(
    stream: Stream, source: CreditSource, pieces: Sequence[Piece], generator: torch.Generator
) -> LabelDependence | Missing:
    """Γ of the credit for 10 permutations of the labels within each batch, against the gradient for the true ones."""
    if not any(_differs(piece.batch.labels) for piece in pieces):
        return Missing(Reason.NOT_POSSIBLE, "all images of a batch have the same label, so that none can be exchanged")

    def permuted(piece: Piece) -> Iterator[Signals]:
        labels = piece.batch.labels
        for _ in range(PERMUTATIONS):
            order = torch.randperm(len(labels), generator=generator).to(labels.device)
            yield source.signals(with_labels(piece.batch, labels[order]))

    draws, own = _gammas(stream, pieces, permuted)
    return LabelDependence(draws, own, sum(map(len, pieces)))


def random_gammas(pieces: Sequence[Piece], generator: torch.Generator) -> Layers:
    """Γ per layer of one random vector per image: what the measurement gives for no signal at all."""
    total = MeanCosine()
    for piece in pieces:
        units = [unit_vectors(gradient) for gradient in piece.gradients]
        total.add(cosines_with(units, [torch.randn(unit.shape, generator=generator).to(unit) for unit in units]))
    return _plain(total.means())


def _gammas(
    stream: Stream, pieces: Sequence[Piece], drawn: Callable[[Piece], Iterator[Signals]]
) -> tuple[tuple[Layers, ...], Layers]:
    """Γ per layer of every draw, and of the credit itself."""
    totals, own = MeanCosine(), MeanCosine()
    for piece in steps("comparing Γ with chance", pieces):
        units = [unit_vectors(gradient) for gradient in piece.gradients]
        own.add(cosines_with(units, piece.credit))
        with torch.enable_grad():
            totals.add([cosines_with(units, _vectors(stream, signals, piece)) for signals in drawn(piece)])
    return tuple(map(_plain, totals.means())), _plain(own.means())


def _vectors(stream: Stream, signals: Signals, piece: Piece) -> list[Tensor]:
    """The signals as the stream reads them, detached; refused unless they have the shape of the credit's own."""
    vectors = [stream.vectors(signal.detach()) for signal in signals]
    found, wanted = ([tuple(vector.shape) for vector in side] for side in (vectors, piece.credit))
    if found != wanted:
        raise InvalidInput(
            f"With fresh feedback the credit has the shapes {found}, its own ones are {wanted}.\n"
            "Γ of the draws would not be a null of this credit. Let redraw= return a function like the one in credit=."
        )
    return vectors


def _differs(labels: Tensor) -> bool:
    return len(labels) > 1 and bool((labels != labels[0]).any())


def _plain(values: Tensor) -> Layers:
    return tuple(values.tolist())
