"""Feedback alignment between blocks, as in the published audit."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.methods import method
from creditscope.methods.local import LocalPass, LocalRule, Normalisation, check_normalisation, drawn_again, normal
from creditscope.methods.rule import Feedback, example_states
from creditscope.networks.staged import StagedNetwork


@method(
    "fa",
    summary="Feedback alignment between blocks: credit descends block by block through fixed random matrices.",
    formula="a_L = g_L through the read-out;  a_l = a_{l+1} B_l",
    feedback="B_l (features of h_{l+1} × features of h_l) ~ N(0, 1)/√rows, drawn once",
    paper="Lillicrap et al. (2016), at block level",
    identities={
        "with B_l = ∂h_{l+1}/∂h_l of a sample in place of the feedback, a_l = g_l": (
            "tests/contracts/test_every_method.py::test_every_method_keeps_every_clause"
        ),
        "a_L = g_L, and no other state is exact": (
            "tests/methods/test_fa.py::test_the_deepest_layer_and_no_other_is_exact"
        ),
    },
    fails="Blocks must align with their random B_l, each through those above it. Convolutional and deep networks do "
    "so badly (Bartunov et al., 2018).",
)
@dataclass(frozen=True)
class BlockFeedback(LocalRule):
    """Credit descends from block to block through fixed random matrices.

    B_l acts on the features of a state (its channels, if it is convolutional), or on the flattened state between
    stages of different shape.
    """

    normalisation: Normalisation = "batch"

    stands_for = "block"

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """One matrix per block, from the features of h_{l+1} to those of h_l."""
        states, _ = example_states(network, example)
        pairs = pairwise(states)
        shapes = [(_features(above, below), _features(below, above)) for below, above in pairs]
        return Feedback(
            {f"B.{layer}": normal(rows, columns, generator) for layer, (rows, columns) in enumerate(shapes)}
        )

    def redrawn(
        self, network: StagedNetwork, feedback: Feedback, example: Batch, generator: torch.Generator
    ) -> Feedback:
        """Matrices of the same shapes."""
        return drawn_again(feedback, generator)

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """g_L, carried down block by block."""
        credit = [seen.deepest]
        for layer in reversed(range(network.depth)):
            matrix = feedback.tensors[f"B.{layer}"].to(seen.error)
            credit.append(_carried(credit[-1], matrix, seen.hiddens[layer]))
        return tuple(reversed(credit))

    def exact_layers(self, depth: int) -> frozenset[int]:
        """The deepest: a_L = g_L."""
        return frozenset({depth})


def _features(state: Tensor, other: Tensor) -> int:
    """The length of the axis that B acts on."""
    if state.shape != other.shape:
        return state[0].numel()
    return state.shape[1] if state.dim() == 4 else state.shape[-1]


def _carried(credit: Tensor, matrix: Tensor, below: Tensor) -> Tensor:
    if credit.shape != below.shape:
        return (credit.flatten(1) @ matrix).view_as(below)
    if credit.dim() == 4:
        return torch.einsum("nchw,ck->nkhw", credit, matrix)
    return credit @ matrix
