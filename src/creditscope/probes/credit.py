"""Collects the evidence about one credit signal: Γ over all images, the probes over the first 1,024."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from creditscope.batch import Batch, first_images
from creditscope.credit import CreditSource
from creditscope.evidence.alignment import AlignmentLedger, paired_vectors
from creditscope.evidence.credit import CreditEvidence, Layers
from creditscope.probes.hidden_backprop import hidden_backprop
from creditscope.probes.images import PROBE_IMAGES, Piece
from creditscope.probes.interventions import intervene
from creditscope.probes.nulls import label_dependence, null, random_gammas
from creditscope.probes.precision import precision
from creditscope.probes.source import checked_signals
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace


class CreditLedger:
    """Accumulates alignment batch by batch and keeps copies of the images for the probes: `pieces`."""

    def __init__(self, stream: Stream, source: CreditSource) -> None:
        self._stream, self._source = stream, source
        self._aligned = AlignmentLedger()
        self.pieces: list[Piece] = []
        self._room = PROBE_IMAGES
        self._noise: Layers = ()

    def add(self, batch: Batch, trace: Trace) -> None:
        """The credit of one batch beside its gradients."""
        signals = checked_signals(self._source, batch, trace)
        credit, gradients = paired_vectors(self._stream, signals, trace.gradients)
        self._aligned.add(credit, gradients)
        self._noise = self._noise or _noise(self._source, signals)
        if self._room > 0:
            count = min(self._room, len(batch.labels))
            few, kept = first_images(batch, count), slice(count)
            self.pieces.append(Piece(few, _copies(credit, kept), _copies(gradients, kept)))
            self._room -= count

    @property
    def batches(self) -> list[Batch]:
        """The probe images."""
        return [piece.batch for piece in self.pieces]

    def evidence(
        self,
        blocks: Sequence[nn.Module],
        loss_fn: LossFunction,
        generator: torch.Generator,
        *,
        judged_only: bool = False,
    ) -> CreditEvidence:
        """Run all probes, each with its own generator, so that no probe changes the numbers of another.

        judged_only  leave out ρ and nudging, which no diagnostic judges and which cost most
        """
        stream, source, pieces = self._stream, self._source, self.pieces
        chance, directions, changes, layers, labels, random = (_own(generator) for _ in range(6))
        return CreditEvidence(
            alignment=self._aligned.alignment(),
            exact_layers=source.exact_layers,
            local=source.local,
            images=sum(map(len, pieces)),
            null=null(stream, source, pieces, chance),
            label_dependence=label_dependence(stream, source, pieces, labels),
            random=random_gammas(pieces, random),
            interventions=None if judged_only else intervene(stream, pieces, loss_fn, directions),
            precision=precision(stream, pieces, loss_fn),
            backprop=hidden_backprop(stream, source, blocks, pieces[0].batch, loss_fn=loss_fn, generator=changes),
            residual=_residual(source, self.batches, layers),
            angles=source.angles(),
            noise=self._noise,
        )


def _own(generator: torch.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(torch.randint(2**62, (1,), generator=generator)))


def _copies(vectors: Sequence[Tensor], kept: slice) -> tuple[Tensor, ...]:
    return tuple(tensor[kept].clone() for tensor in vectors)


def _residual(source: CreditSource, batches: Sequence[Batch], generator: torch.Generator) -> float | None:
    """Mean over the batches of the residual of the source; None if it has none."""
    parts = [part for batch in batches if (part := source.residual(batch, generator)) is not None]
    return torch.stack(parts).double().mean().item() if parts else None


def _noise(source: CreditSource, signals: Sequence[Tensor]) -> Layers:
    """The declared cosine of a random estimate per layer, NaN where a state is not flat; empty if it is not random."""
    cosines = [source.noise_cosine(signal[0].numel()) for signal in signals]
    flat = [math.nan if c is None or s.dim() != 2 else c for c, s in zip(cosines, signals, strict=True)]
    return () if all(cosine is None for cosine in cosines) else tuple(flat)
