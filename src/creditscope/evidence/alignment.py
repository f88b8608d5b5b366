"""Γ: how well does credit point along the gradient?  Exact, and as the usual clamped cosine would print it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

USUAL_BATCH = 128  # whose mean loss a script differentiates; fixed, so that no number depends on how images are cut
EPS = 1e-8  # F.cosine_similarity's default; recent PyTorch clamps each norm at it


def exact_cosines(credit: Tensor, gradient: Tensor) -> Tensor:
    """cos(a, g) per row, in float64 and without eps; NaN where either vector is zero or not finite.

    Each vector is first divided by its largest |entry|: 1e-30 squared would underflow in float32.
    """
    a, g = _scaled(credit), _scaled(gradient)
    cosines: Tensor = (a * g).sum(-1) / (a.norm(dim=-1) * g.norm(dim=-1))
    return cosines


def clamped_cosines(credit: Tensor, gradient: Tensor, eps: float = EPS) -> Tensor:
    """⟨a, g⟩ / (max(‖a‖, eps)·max(‖g‖, eps)) per row: what the usual tool prints."""
    a, g = credit.double(), gradient.double()
    norms: Tensor = a.norm(dim=-1).clamp_min(eps) * g.norm(dim=-1).clamp_min(eps)
    return (a * g).sum(-1) / norms


def _scaled(vectors: Tensor) -> Tensor:
    vectors = vectors.double()
    return vectors / vectors.abs().amax(-1, keepdim=True)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Γ per layer over all samples seen: means over the samples for which the cosine is defined."""

    exact: tuple[float, ...]
    clamped: tuple[float, ...]
    undefined: tuple[int, ...]
    samples: int


class AlignmentLedger:
    """Adds up per-sample cosines, batch by batch; waits for no device."""

    def __init__(self) -> None:
        self._exact: Tensor | float = 0.0
        self._clamped: Tensor | float = 0.0
        self._defined: Tensor | float = 0.0
        self._samples = 0

    def add(self, credit: list[Tensor], gradients: list[Tensor]) -> None:
        """One batch: vectors a_l and g_l as they are read, (N, d) or (N, positions, d) each.

        The clamped cosine is taken as a script would meet it: with the gradient of the mean loss of 128 samples.
        """
        cosines = [exact_cosines(a, g).flatten() for a, g in zip(credit, gradients, strict=True)]
        clamped = [clamped_cosines(a, g / USUAL_BATCH).flatten() for a, g in zip(credit, gradients, strict=True)]
        self._exact = self._exact + torch.stack([values.nansum() for values in cosines])
        self._defined = self._defined + torch.stack([(~values.isnan()).sum() for values in cosines])
        self._clamped = self._clamped + torch.stack([values.sum() for values in clamped])
        self._samples += len(cosines[0])

    def alignment(self) -> Alignment:
        """The means; a layer without any defined cosine is NaN."""
        exact, defined, clamped = (torch.as_tensor(total) for total in (self._exact, self._defined, self._clamped))
        return Alignment(
            exact=tuple((exact / defined).tolist()),
            clamped=tuple((clamped / self._samples).tolist()),
            undefined=tuple(int(self._samples - count) for count in defined.tolist()),
            samples=self._samples,
        )
