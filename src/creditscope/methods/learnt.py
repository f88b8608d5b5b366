"""Feedback matrices that learn: where they are kept, and the angle between them and the weights."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods.inside_weights import InsideWeights, check_names, drawn, weights_of, weights_on_the_way_back
from creditscope.methods.rule import Feedback
from creditscope.networks.staged import StagedNetwork

MATRICES = "matrices"


class LearntMatrices(nn.Module):
    """B of every weight on the way back, of its shape; `steps` counts the steps of the run."""

    steps: Tensor

    def __init__(self, matrices: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._names = {name.replace(".", "/"): name for name in matrices}  # a parameter's own name has no dot
        for name, matrix in matrices.items():
            self.register_parameter(name.replace(".", "/"), nn.Parameter(matrix))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def by_weight(self) -> dict[str, nn.Parameter]:
        """B by the name of its weight."""
        return {self._names[name]: matrix for name, matrix in self.named_parameters()}


class LearntFeedback(InsideWeights):
    """A rule inside every weight whose B learns; B_0 ~ scale · N(0, 1)/√fan_out.

    Weights that read the data themselves need no B: no credit goes on from them.
    """

    scale: float
    stands_for = "weight"

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """B_0 of every weight on the way back."""
        weights = weights_on_the_way_back(network, example).items()
        first = {name: drawn(w, self.scale, generator).to(w.dtype) for name, w in weights}
        return Feedback({}, nn.ModuleDict({MATRICES: LearntMatrices(first)}))

    def feedback_matrices(self, feedback: Feedback) -> Mapping[str, Tensor]:
        """B by the name of its weight."""
        return matrices(feedback).by_weight()

    def backward_weights(self, network: StagedNetwork, feedback: Feedback) -> Mapping[str, Tensor]:
        """B as it stands."""
        return {name: matrix.detach() for name, matrix in matrices(feedback).by_weight().items()}

    def angles(self, network: StagedNetwork, feedback: Feedback) -> dict[str, float]:
        """The angle between B and W in degrees, by the name of the weight; NaN where one of them is 0."""
        weights, learnt = weights_of(network), matrices(feedback).by_weight()
        check_names({name: weights[name] for name in weights if name in learnt}, learnt, network.title)
        return {name: angle(matrix, weights[name]) for name, matrix in learnt.items()}


def matrices(feedback: Feedback) -> LearntMatrices:
    """The learnt matrices of a feedback."""
    held = feedback.networks[MATRICES] if feedback.networks is not None and MATRICES in feedback.networks else None
    if not isinstance(held, LearntMatrices):
        raise InvalidInput(
            "The feedback holds no learnt matrices.\n"
            "Credit through fresh ones would not be the credit that trained the network. Load them from the checkpoint."
        )
    return held


def angle(one: Tensor, other: Tensor) -> float:
    """The angle between two tensors in degrees, by ‖u - v‖ and ‖u + v‖ of the unit vectors: exact near 0 too.

    2 atan2(‖u - v‖, ‖u + v‖)
    """
    u, v = (tensor.detach().double().flatten() for tensor in (one, other))
    if not (bool(u.any()) and bool(v.any())):
        return math.nan
    u, v = (t / t.abs().max() for t in (u, v))
    u, v = u / u.norm(), v / v.norm()
    return math.degrees(2 * math.atan2((u - v).norm().item(), (u + v).norm().item()))
