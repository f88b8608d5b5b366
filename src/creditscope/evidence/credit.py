"""Credit evidence: what was measured about one credit signal, as plain numbers per layer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from creditscope.verdict import Missing, Reason

if TYPE_CHECKING:
    from creditscope.credit import Local
    from creditscope.evidence.alignment import Alignment

NO_NULL = Missing(Reason.NOT_GIVEN, "no null was drawn for this credit")
NOT_PERMUTED = Missing(Reason.NOT_GIVEN, "the labels were not permuted")
NO_FLOAT64 = Missing(Reason.NOT_GIVEN, "the gradient was not computed in float64")
NOT_PERTURBED = Missing(Reason.NOT_GIVEN, "the weights were not perturbed")

Layers = tuple[float, ...]  # one number per state h_0..h_L; NaN = undefined


@dataclass(frozen=True, slots=True)
class Null:
    """Γ by chance: of the same credit under fresh feedback from its own distribution.

    draws   Γ per layer of every draw
    own     Γ per layer of the credit itself, on the same images
    """

    draws: tuple[Layers, ...]
    own: Layers
    images: int = 0


@dataclass(frozen=True, slots=True)
class LabelDependence:
    """Γ of credit for the labels of other images, against the gradient for the true ones.

    draws   Γ per layer under every permutation of the labels
    own     Γ per layer of the credit itself, on the same images
    """

    draws: tuple[Layers, ...]
    own: Layers
    images: int = 0


@dataclass(frozen=True, slots=True)
class Interventions:
    """How the loss responds to moved states: ρ and nudging, with steps relative to ‖h‖ and with absolute ones.

    *_bp       the score of the backprop gradient in the same setting
    precision  of the losses behind ρ and nudging
    directions  drawn per image, for every layer; directions_absolute: for the absolute step
    error      largest half-width over the layers of the 95 % interval of ρ over directions; error_absolute: likewise
    """

    rho: Layers
    rho_bp: Layers
    rho_absolute: Layers
    rho_absolute_bp: Layers
    nudge: Layers
    nudge_absolute: Layers
    precision: str
    directions: tuple[int, ...] = ()
    directions_absolute: tuple[int, ...] = ()
    error: float = math.nan
    error_absolute: float = math.nan


@dataclass(frozen=True, slots=True)
class Precision:
    """Median cosine per layer between the gradient and the same gradient in float64."""

    cosines: Layers
    dtype: str


@dataclass(frozen=True, slots=True)
class LabelLeak:
    """How often the answers change when other labels are passed in.

    share    of the images with another label, those whose logits change
    flipped  how many of their predictions change
    images   with another label
    trials   how many other labellings were tried
    """

    share: float
    flipped: int = 0
    images: int = 0
    trials: int = 1


@dataclass(frozen=True, slots=True)
class HiddenBackprop:
    """Change of credit over change of the gradient, for l < L, when weights change in ways the forward pass ignores.

    ratios         NaN where the gradient hardly changes
    reads_network  whether the credit changes at all when the weights of the blocks do
    """

    ratios: Layers
    precision: Literal["float64", "single"] = "float64"
    images: int = 0
    reads_network: bool = True


@dataclass(frozen=True, slots=True)
class CreditEvidence:
    """Everything that was measured about one credit signal; a part that is missing says why.

    exact_layers  whose credit is the gradient by construction
    local         as declared: local; "forward" if it probes the weights above by forward passes; False if it uses them
    images        behind every part except the alignment, which uses all images
    random        Γ per layer of one random vector per image: calibration only
    residual      of a learned stand-in, for rules that have one
    angles        of learnt feedback to the weight that it stands for, in degrees, by name
    noise         the mean cosine that a correct random estimate has, per layer; empty where credit is not random
    """

    alignment: Alignment
    exact_layers: frozenset[int] = frozenset()
    local: Local = True
    images: int = 0
    null: Null | Missing = NO_NULL
    label_dependence: LabelDependence | Missing = NOT_PERMUTED
    random: Layers = ()
    interventions: Interventions | None = None
    precision: Precision | Missing = NO_FLOAT64
    backprop: HiddenBackprop | Missing = NOT_PERTURBED
    residual: float | None = None
    angles: Mapping[str, float] = field(default_factory=dict)
    noise: Layers = ()
