"""What is left of credit when the batches are gone: plain numbers per layer, and why some could not be had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from creditscope.evidence.alignment import Alignment

Layers = tuple[float, ...]  # one number per state h_0..h_L; NaN = undefined


@dataclass(frozen=True, slots=True)
class Null:
    """Γ by chance: of the same rule under fresh feedback, or of credit for labels that belong to other images.

    draws   Γ per layer of every draw
    own     Γ per layer of the credit itself, on the same images
    random  Γ per layer of one random vector per image: calibration only
    """

    kind: Literal["fresh feedback", "shuffled labels"]
    draws: tuple[Layers, ...]
    own: Layers
    random: Layers = ()
    images: int = 0


@dataclass(frozen=True, slots=True)
class Moves:
    """How the loss answers when the states are moved: ρ and nudging, by steps relative to ‖h‖ and by absolute ones.

    *_bp is the score of the backprop gradient under the same setting.
    """

    rho: Layers
    rho_bp: Layers
    rho_absolute: Layers
    rho_absolute_bp: Layers
    nudge: Layers
    nudge_absolute: Layers
    precision: str  # in which the losses of ρ and nudging were computed


@dataclass(frozen=True, slots=True)
class Precision:
    """Median cosine per layer between the gradient and the same gradient in float64."""

    cosines: Layers
    dtype: str
    reason: str = ""  # why it could not be had


@dataclass(frozen=True, slots=True)
class LabelLeak:
    """Whether the answers moved when other labels were handed in."""

    share: float  # of the images with another label whose logits moved
    flipped: int = 0  # of these images: predictions that changed
    images: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class HiddenBackprop:
    """Move of credit over move of the gradient, for l < L, when weights change where the forward pass cannot see it.

    ratios   NaN where the layer could not be judged
    """

    ratios: Layers
    precision: Literal["float64", "single"] = "float64"
    images: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CreditEvidence:
    """Everything that was measured about one credit signal; absent = None."""

    alignment: Alignment
    exact: frozenset[int] = frozenset()
    local: bool = True
    images: int = 0  # behind everything but the alignment, which saw them all
    null: Null | None = None
    moves: Moves | None = None
    precision: Precision | None = None
    backprop: HiddenBackprop | None = None
    residual: float | None = None  # of a learned stand-in, for rules that have one
