"""Γ: cosines of credit and gradient, exact and clamped, and their means over samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import PUBLISHED_BATCH
from creditscope.evidence.norms import norm_table
from creditscope.stream.reading import ReadsStates

EPS = 1e-8  # F.cosine_similarity's default; recent PyTorch clamps each norm at it


def exact_cosines(credit: Tensor, gradient: Tensor) -> Tensor:
    """cos(a, g) per row, in float64 and without eps; NaN where either vector is zero or not finite.

    Each vector is first divided by its largest |entry|: 1e-30 squared would underflow in float32.
    """
    a, g = _scaled(credit), _scaled(gradient)
    cosines: Tensor = (a * g).sum(-1) / (a.norm(dim=-1) * g.norm(dim=-1))
    return cosines


def clamped_cosines(credit: Tensor, gradient: Tensor, eps: float = EPS) -> Tensor:
    """⟨a, g⟩ / (max(‖a‖, eps)·max(‖g‖, eps)) per row: the cosine that F.cosine_similarity returns."""
    a, g = credit.double(), gradient.double()
    norms: Tensor = a.norm(dim=-1).clamp_min(eps) * g.norm(dim=-1).clamp_min(eps)
    return (a * g).sum(-1) / norms


def _scaled(vectors: Tensor) -> Tensor:
    vectors = vectors.double()
    return vectors / vectors.abs().amax(-1, keepdim=True)


def unit_vectors(vectors: Tensor) -> Tensor:
    """v/‖v‖ per row, without under- or overflow, in float32 unless v is float64; NaN where v is zero or not finite."""
    wide = _scaled(vectors)
    unit: Tensor = wide / wide.norm(dim=-1, keepdim=True)
    return unit if vectors.dtype == torch.float64 else unit.float()


def cosines_with(units: Sequence[Tensor], credit: Sequence[Tensor]) -> Tensor:
    """⟨a, u⟩/‖a‖ for unit vectors u, (layers, rows): `exact_cosines` to 1e-5, faster where u is used many times.

    No product of two small numbers occurs, so that float32 is enough.
    """
    dots = [torch.linalg.vecdot(a.to(unit), unit).flatten() for a, unit in zip(credit, units, strict=True)]
    return torch.stack(dots) / norm_table(list(credit))


def paired_vectors(
    stream: ReadsStates, signals: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Credit and gradients of one batch, both read as the stream reads its states."""
    reading = stream.reading
    return [reading.vectors(signal) for signal in signals], [reading.vectors(gradient) for gradient in gradients]


class MeanCosine:
    """Running mean over samples of the cosines that are defined, batch by batch; waits for no device."""

    def __init__(self) -> None:
        self._sum: Tensor | float = 0.0
        self._count: Tensor | float = 0.0

    def add(self, cosines: Sequence[Tensor] | Tensor) -> None:
        """One batch: cosines per layer (or per draw and layer), samples on the last axis."""
        self._sum = self._sum + torch.stack([values.nansum(-1) for values in cosines])
        self._count = self._count + torch.stack([(~values.isnan()).sum(-1) for values in cosines])

    def defined(self) -> Tensor:
        """How many cosines are behind each mean."""
        return torch.as_tensor(self._count).cpu()

    def means(self) -> Tensor:
        """The means; NaN where no cosine is defined."""
        return (torch.as_tensor(self._sum) / torch.as_tensor(self._count)).cpu()


@dataclass(frozen=True, slots=True)
class Alignment:
    """Γ per layer: means over the samples whose cosine is defined.

    undefined  samples without a cosine: no credit there, or no gradient
    due        samples with a gradient that is not zero: those that credit should reach
    """

    exact: tuple[float, ...]
    clamped: tuple[float, ...]
    undefined: tuple[int, ...]
    due: tuple[int, ...]
    samples: int

    @property
    def reach(self) -> tuple[float, ...]:
        """The share of the samples with a gradient that have credit too; NaN where none has a gradient."""
        shares = zip(self.undefined, self.due, strict=True)
        return tuple((self.samples - lost) / due if due else math.nan for lost, due in shares)


class AlignmentLedger:
    """Accumulates Γ over batches, exact and clamped."""

    def __init__(self) -> None:
        self._exact = MeanCosine()
        self._clamped: Tensor | float = 0.0
        self._due: Tensor | float = 0.0
        self._samples = 0

    def add(self, credit: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """One batch: vectors a_l and g_l as they are read, (N, d) or (N, positions, d) each.

        The clamped cosine is the one that a script would get: with the gradient of the mean loss of 128 samples.
        """
        cosines = [exact_cosines(a, g).flatten() for a, g in zip(credit, gradients, strict=True)]
        clamped = [clamped_cosines(a, g / PUBLISHED_BATCH).flatten() for a, g in zip(credit, gradients, strict=True)]
        self._exact.add(cosines)
        self._clamped = self._clamped + torch.stack([values.sum() for values in clamped])
        self._due = self._due + torch.stack([(g != 0).any(-1).sum() for g in gradients])
        self._samples += len(cosines[0])

    def alignment(self) -> Alignment:
        """The means; a layer without any defined cosine is NaN."""
        return Alignment(
            exact=tuple(self._exact.means().tolist()),
            clamped=tuple((torch.as_tensor(self._clamped) / self._samples).tolist()),
            undefined=tuple(self._samples - int(count) for count in self._exact.defined().tolist()),
            due=tuple(int(count) for count in torch.as_tensor(self._due).tolist()),
            samples=self._samples,
        )
