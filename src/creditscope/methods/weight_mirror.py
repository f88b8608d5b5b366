"""Weight mirrors: the feedback learns the weights from noise that passes through them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.inside_weights import weights_of
from creditscope.methods.learnt import LearntFeedback, matrices
from creditscope.methods.rule import EVERYTHING, Feedback, Moment, Scope
from creditscope.networks.staged import StagedNetwork


@method(
    "weight_mirror",
    summary="Weight mirrors: inside every Linear and Conv2d the feedback learns its weight from noise sent through it.",
    formula="y = x Wᵀ;  ∂ℓ/∂x := (∂ℓ/∂y) B;  noise phase: B ← (1 - λ_m) B + η_m mean(y ξᵀ),  y = W ξ,  ξ ~ N(0, σ²)",
    feedback="B_0 (the shape of W) ~ N(0, 1)/√fan_out for every Linear and Conv2d on the way back; then learnt",
    paper="Akrout et al. (2019)",
    identities={
        "cos(B, W) > 0.99 after a noise phase on fixed weights, and it rises with the phase's length": (
            "tests/methods/test_weight_mirror.py::test_a_long_noise_phase_turns_the_feedback_to_the_weights"
        ),
        "a phase is its definition, one noise vector after the other": (
            "tests/methods/test_weight_mirror.py::test_a_phase_is_its_definition"
        ),
    },
    fails="B lags behind weights that move between noise phases; few, short or noisy phases leave it partly random: "
    "read the angles in the history.",
)
@dataclass(frozen=True)
class WeightMirror(LearntFeedback):
    """Noise at a layer's input shows which input moves which output: E[y ξᵀ] = σ² W, so that B → (η_m σ²/λ_m) W.

    every    training steps from one noise phase to the next; the first step begins with one
    length   mirror updates in a phase
    samples  noise vectors behind each update
    decay, rate, noise   λ_m, η_m and σ
    scale    multiplies B_0

    A convolution is mirrored as the matrix that acts on one patch. Weights that read the data themselves need no B.
    """

    every: int = 20
    length: int = 10
    samples: int = 128
    decay: float = 0.02
    rate: float = 0.02
    noise: float = 1.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("every", "length", "samples"):
            if getattr(self, name) < 1:
                raise InvalidInput(
                    f"{name} must be at least 1, got {getattr(self, name)}.\n"
                    "The feedback would never be mirrored. Give a whole number of at least 1."
                )
        if not (0 < self.decay < 1 and 0 < self.rate < math.inf and 0 < self.noise < math.inf):
            raise InvalidInput(
                f"decay must lie between 0 and 1, rate and noise must be positive, got decay = {self.decay:g}, "
                f"rate = {self.rate:g}, noise = {self.noise:g}.\n"
                "B would not settle near a multiple of W. Correct the options."
            )

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """A noise phase where one is due, then the credit."""
        steps = matrices(feedback).steps
        if int(steps) % self.every == 0:
            self.mirror(network, feedback, moment.generator)
        steps += 1
        return self.credit(network, feedback, batch, scope)

    @torch.no_grad()
    def mirror(self, network: StagedNetwork, feedback: Feedback, generator: torch.Generator) -> None:
        """One noise phase; every layer is driven by noise of its own."""
        weights = weights_of(network)
        for _ in range(self.length):
            for name, matrix in matrices(feedback).by_weight().items():
                product = self._correlation(weights[name].to(matrix), generator)
                matrix.mul_(1 - self.decay).add_(product, alpha=self.rate)

    def _correlation(self, weight: Tensor, generator: torch.Generator) -> Tensor:
        """mean(y ξᵀ) over the samples, in the shape of the weight."""
        flat = weight.flatten(1)
        inputs = torch.randn(self.samples, flat.shape[1], generator=generator).to(flat).mul_(self.noise)
        return ((inputs @ flat.T).T @ inputs / self.samples).view_as(weight)
