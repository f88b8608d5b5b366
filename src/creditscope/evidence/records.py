"""Evidence: everything that a diagnostic may read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy
import torch
from numpy.typing import NDArray
from torch import Tensor

from creditscope.evidence.credit import CreditEvidence, LabelLeak, Layers
from creditscope.evidence.updates import NO_UPDATES, UpdateEvidence
from creditscope.provenance import Source
from creditscope.verdict import NO_CREDIT, Missing, Reason


@dataclass(frozen=True, slots=True)
class Directions:
    """Sums of unit vectors, one per group of images, at every layer.

    For K unit vectors u_k the mean pairwise cosine is (‖Σ u_k‖² - K)/(K(K - 1)): the vectors need not be kept.
    """

    sums: tuple[Tensor, ...]  # per layer (d,)
    groups: int
    vanished: tuple[int, ...]  # per layer: groups whose mean gradient is exactly zero
    size: int | None  # images in a group; None: the batches themselves


@dataclass(frozen=True, slots=True)
class Rival:
    """What the deepest read-out is compared with: how many images each of the two alone gets right."""

    name: str
    accuracy: float
    gained: int  # right at the deepest state only
    lost: int  # right at the rival only


@dataclass(frozen=True, slots=True)
class ReadoutProfile:
    """Test accuracy of a linear read-out of every state, and what the deepest one gains over its rivals."""

    accuracies: Layers  # R_0..R_L
    rivals: tuple[Rival, ...]  # the embedding; the network with its blocks set back, where `initial=` was given
    images: int
    training_images: int
    numbers: tuple[int, ...] = ()  # that each read-out reads; empty if not known

    @property
    def rival(self) -> Rival:
        """The most accurate one."""
        return max(self.rivals, key=lambda rival: rival.accuracy)

    @property
    def narrows(self) -> bool:
        """Whether the deepest read-out has fewer numbers to read than that of the embedding."""
        return bool(self.numbers) and self.numbers[-1] < self.numbers[0]

    @property
    def late_rise(self) -> float:
        """R_L - R_1: what the blocks after the first add."""
        return self.accuracies[-1] - self.accuracies[min(1, len(self.accuracies) - 1)]


LOWER_TAIL, UPPER_TAIL = 0.1, 0.95  # of the images: what a median does not show
NO_ERRORS = Missing(Reason.NOT_GIVEN, "no logits and labels were given, so the errors ∂ℓ/∂logits are not known")
NO_TRAINING_IMAGES = Missing(Reason.NOT_GIVEN, "no training images were given (training=), so no read-out was fitted")


@dataclass(frozen=True, slots=True)
class Growth:
    """How much the stream grows from one state to a later one."""

    early: int
    late: int
    middle: float  # of the medians over images
    tail: float  # 95th percentile of the images' own growth
    over_tokens: bool  # of all tokens, not of the one that is read


@dataclass(frozen=True)
class Evidence:
    """Per-sample norms over all images, D4's directions, counts, accuracies and probes.

    credit, leak, profile   what was measured, or why it is missing
    untrusted               states at which no cosine can be interpreted: D11 or D13 fires there, or D7 does
    """

    hidden_norms: Tensor  # (L+1, samples), float64
    gradient_norms: Tensor  # (L+1, samples), float64
    error_norms: Tensor | Missing  # (samples,), float64: ‖∂ℓ/∂logits‖
    step_norms: Tensor | None = None  # (L, samples), float64: ‖h_{l+1} - h_l‖; NaN where a block changes the shape
    position_norms: Tensor | None = None  # (L+1, samples): RMS over all tokens, where the norms above are of one token
    state_products: Tensor | None = None  # (L+1, samples): Σ_p ‖h_p‖·‖g_p‖, where states have positions
    step_products: Tensor | None = None  # (L, samples): Σ_p ‖h_{l+1,p} - h_{l,p}‖·‖g_{l+1,p}‖, likewise
    same_shape: tuple[bool, ...] = ()  # per block: whether it leaves the shape of the stream as it is
    directions: Directions | None = None
    non_finite: dict[str, int] | None = None
    images: int = 0
    batches: int = 0
    accuracy: tuple[float, ...] | None = None  # one per seed
    control_accuracy: tuple[float, ...] | None = None
    accuracy_images: int | None = None  # test images behind one accuracy, if known
    matched_seeds: bool = True
    named_seeds: bool = False  # whether the caller named the seeds of both sides
    accuracy_source: Source | None = None
    control_source: Source | None = None
    answers: NDArray[numpy.bool_] | None = None  # (1, images): right answers, where controls were asked the same images
    control_answers: NDArray[numpy.bool_] | None = None  # (controls, images)
    credit: CreditEvidence | Missing = NO_CREDIT
    leak: LabelLeak | Missing = NO_CREDIT
    profile: ReadoutProfile | Missing = NO_TRAINING_IMAGES
    updates: UpdateEvidence | Missing = NO_UPDATES
    weight_drift: Layers | None = None  # of embedding, blocks and read-out
    untrusted: frozenset[int] = frozenset()

    @cached_property
    def hidden_medians(self) -> Tensor:
        """m_l = median over all images of ‖h_l‖, (L+1,)."""
        return self.hidden_norms.median(dim=1).values

    @cached_property
    def gradient_medians(self) -> Tensor:
        """The median over all images of ‖g_l‖, (L+1,)."""
        return self.gradient_norms.median(dim=1).values

    @property
    def errors(self) -> Tensor:
        """‖e‖ of every image; zeros where the errors are not known, as if no image had one."""
        if isinstance(self.error_norms, Missing):
            return self.hidden_norms.new_zeros(self.hidden_norms.shape[1])
        return self.error_norms

    @cached_property
    def sensitivities(self) -> Tensor:
        """s_l = Σ_p ‖h_{l,p}‖·‖g_{l,p}‖/‖e‖ of every image with an error, (L+1, images): free of the stream's units.

        How much the loss moves, in units of the output error, when every position p of the state moves by its own
        size. Moved alike, positions can cancel: behind an InstanceNorm the loss does not feel a common shift at all.
        """
        wrong, products = self.errors > 0, self.state_products
        products = self.hidden_norms * self.gradient_norms if products is None else products
        return products[:, wrong] / self.errors[wrong]

    @cached_property
    def sensitivity_tails(self) -> Tensor:
        """The 10th percentile over images of s_l, (L+1,)."""
        return percentile(self.sensitivities, LOWER_TAIL)

    @cached_property
    def gain_tails(self) -> Tensor:
        """The 10th percentile of ‖g_l‖/‖e‖ over images with an error, (L+1,)."""
        wrong = self.errors > 0
        return percentile(self.gradient_norms[:, wrong] / self.errors[wrong], LOWER_TAIL)

    @cached_property
    def growths(self) -> tuple[Growth, ...]:
        """The growth between any two states, of what is read and of all tokens where only one is."""
        everywhere = [] if self.position_norms is None else [(self.position_norms, True)]
        return tuple(
            Growth(early, late, middle, tail, over_tokens)
            for norms, over_tokens in [(self.hidden_norms, False), *everywhere]
            for early in range(len(norms) - 1)
            for middle, tail, late in _growth_from(norms, early)
        )

    @cached_property
    def influences(self) -> Tensor:
        """c_l = Σ_p ‖h_{l+1,p} - h_{l,p}‖·‖g_{l+1,p}‖/‖e‖, (L, images with an error); NaN where shapes change."""
        wrong, products = self.errors > 0, self.step_products
        if products is None:
            steps = self.hidden_norms.new_zeros(0, len(self.errors)) if self.step_norms is None else self.step_norms
            products = steps * self.gradient_norms[1 : len(steps) + 1]
        return products[:, wrong] / self.errors[wrong]


def percentile(table: Tensor, share: float) -> Tensor:
    """The value at this share of every sorted row, (rows,); NaN for a row that holds one, or nothing."""
    if not table.shape[1]:
        return table.new_full((len(table),), torch.nan)
    found: Tensor = table.kthvalue(1 + int(share * (table.shape[1] - 1)), dim=1).values
    return found.masked_fill(table.isnan().any(dim=1), torch.nan)


def _growth_from(norms: Tensor, early: int) -> list[tuple[float, float, int]]:
    """Growth of the medians and of the images' own tail from one state to each later one."""
    medians = norms.median(dim=1).values
    middle = (medians[early + 1 :] / medians[early]).tolist()
    tail = percentile(norms[early + 1 :] / norms[early], UPPER_TAIL).tolist()
    return list(zip(middle, tail, range(early + 1, len(norms)), strict=True))
