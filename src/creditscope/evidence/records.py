"""Evidence: everything that a diagnostic may read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from creditscope.evidence.credit import CreditEvidence, LabelLeak, Layers
from creditscope.verdict import NO_CREDIT, Missing


@dataclass(frozen=True, slots=True)
class Directions:
    """Sums of unit vectors, one per group of images, at every layer.

    For K unit vectors u_k the mean pairwise cosine is (‖Σ u_k‖² - K)/(K(K - 1)): the vectors need not be kept.
    """

    sums: tuple[Tensor, ...]  # per layer (d,)
    groups: int
    vanished: tuple[int, ...]  # per layer: groups whose mean gradient is exactly zero
    size: int | None  # images in a group; None: the batches themselves


@dataclass(frozen=True)
class Evidence:
    """Per-sample norms over all images, D4's directions, counts, accuracies and probes.

    credit, leak   what was measured, or why it is missing
    collapsed      D2's finding: no cosine with the reference can be interpreted
    """

    hidden_norms: Tensor  # (L+1, samples), float64
    gradient_norms: Tensor  # (L+1, samples), float64
    error_norms: Tensor  # (samples,), float64: ‖∂ℓ/∂logits‖
    directions: Directions | None = None
    non_finite: dict[str, int] | None = None
    images: int = 0
    batches: int = 0
    accuracy: tuple[float, ...] | None = None  # one per seed
    control_accuracy: tuple[float, ...] | None = None
    accuracy_images: int | None = None  # test images behind one accuracy, if known
    matched_seeds: bool = True
    credit: CreditEvidence | Missing = NO_CREDIT
    leak: LabelLeak | Missing = NO_CREDIT
    weight_drift: Layers | None = None  # of embedding, blocks and read-out
    collapsed: bool = False

    @cached_property
    def hidden_medians(self) -> Tensor:
        """m_l = median over all images of ‖h_l‖, (L+1,)."""
        return self.hidden_norms.median(dim=1).values

    @cached_property
    def gradient_medians(self) -> Tensor:
        """The median over all images of ‖g_l‖, (L+1,)."""
        return self.gradient_norms.median(dim=1).values
