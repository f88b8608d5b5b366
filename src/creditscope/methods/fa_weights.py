"""Feedback alignment inside every weight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.methods import method
from creditscope.methods.inside_weights import InsideWeights, check_names, drawn, weights_of
from creditscope.methods.rule import Feedback
from creditscope.networks.staged import StagedNetwork


@method(
    "fa_weights",
    summary="Feedback alignment inside every Linear and Conv2d: W forward, a fixed random B backward.",
    formula="y = x Wᵀ;  ∂ℓ/∂x := (∂ℓ/∂y) B,  ∂ℓ/∂W = (∂ℓ/∂y)ᵀ x",
    feedback="B (the shape of W) ~ N(0, 1)/√fan_out for every Linear and Conv2d, drawn once",
    paper="Lillicrap et al. (2016)",
    identities={
        "with B = W it is backprop, in signals and updates": (
            "tests/methods/test_fa_weights.py::test_feedback_equal_to_the_weights_is_backprop"
        ),
        "for the same B its gradients are those of BioTorch": (
            "tests/thirdparty/test_biotorch.py::test_fa_inside_every_weight_gives_biotorchs_gradients"
        ),
    },
    fails="Every weight must align with its random B. On deep convolutional networks it stays far behind backprop "
    "(Bartunov et al., 2018). Layers that multiply by a weight out of sight of Linear and Conv2d are refused.",
)
@dataclass(frozen=True)
class WeightFeedback(InsideWeights):
    """Classic feedback alignment in every Linear and Conv2d.

    fan_out is the number of terms in a sum of the backward product.

    scale   multiplies B
    """

    scale: float = 1.0

    stands_for = "weight"
    drawing = frozenset({"scale"})

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """One tensor per weight, of its shape."""
        weights = weights_of(network).items()
        return Feedback({name: drawn(w, self.scale, generator) for name, w in weights})

    def backward_weights(self, network: StagedNetwork, feedback: Feedback) -> Mapping[str, Tensor]:
        """B itself."""
        check_names(weights_of(network), feedback.tensors, network.title)
        return feedback.tensors
