"""Direct feedback alignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.local import (
    Index,
    LocalPass,
    LocalRule,
    Normalisation,
    check_index,
    check_normalisation,
    drawn_again,
    normal,
)
from creditscope.methods.rule import Feedback, StandsFor, example_states
from creditscope.networks.staged import StagedNetwork


@method(
    "dfa",
    summary="Direct feedback alignment: every state receives the output error through its own fixed random matrix.",
    formula="a_l = e B_l,  e = softmax(logits) - onehot(labels)",
    feedback="B_l (classes × features of h_l) ~ N(0, 1)/√classes, drawn once",
    paper="Nøkland (2016)",
    identities={
        "with B_l = ∂logits/∂h_l of a sample in place of the feedback, a_l = g_l": (
            "tests/contracts/test_every_method.py::test_every_method_keeps_every_clause"
        ),
        "DFA = softmax(logits) B_l + DRTP": "tests/methods/test_drtp.py::test_dfa_is_the_projected_answer_plus_drtp",
    },
    fails="Nothing in the rule bounds the branches: the stream can grow until the reference gradient vanishes, and "
    "the network end below its frozen control. A small penalty on the branches keeps the stream.",
)
@dataclass(frozen=True)
class DirectFeedback(LocalRule):
    """Every state receives the output error through its own fixed random matrix.

    index = "output": block l receives a_{l+1}, with L+1 matrices. index = "input" (as published): block l receives
    a_l, with L matrices, and a_L is measured with the last of them: for streams of one shape only. A state with tokens
    receives the same credit at every token; a convolutional state is flattened.
    """

    normalisation: Normalisation = "sample"
    index: Index = "output"

    @property
    def stands_for(self) -> StandsFor | None:  # type: ignore[override]
        """B_l stands for ∂logits/∂h_l; with index = "input" the last matrix serves two states."""
        return "output" if self.index == "output" else None

    @property
    def supported_networks(self) -> tuple[str, ...] | None:
        """All; with index = "input" those whose states have one shape."""
        return None if self.index == "output" else ("resmlp", "vit_mini", "student_net", "mlp", "mupc_mlp")

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        check_index(self.index)

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """One matrix per state whose credit is used."""
        states, logits = example_states(network, example)
        shapes = sorted({tuple(state.shape[1:]) for state in states})
        if self.index == "input" and len(shapes) > 1:
            raise InvalidInput(
                f"The states of {network.title} have the shapes {', '.join(map(str, shapes))}, but with "
                "index = 'input' a block receives the credit of its own input.\n"
                "That credit does not fit the block's output. Use index = 'output'."
            )
        classes = logits.shape[-1]
        count = max(1, network.depth) if self.index == "input" else network.depth + 1
        return Feedback(
            {f"B.{layer}": normal(classes, _width(state), generator) for layer, state in enumerate(states[:count])}
        )

    def redrawn(
        self, network: StagedNetwork, feedback: Feedback, example: Batch, generator: torch.Generator
    ) -> Feedback:
        """Matrices of the same shapes."""
        return drawn_again(feedback, generator)

    def message(self, seen: LocalPass) -> Tensor:
        """What every state receives through its matrix: e."""
        return seen.error

    def through(self, message: Tensor, matrices: Sequence[Tensor]) -> Sequence[Tensor]:
        """e B of every matrix."""
        return [message @ matrix for matrix in matrices]

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """e B_l in the shape of h_l."""
        last = len(feedback.tensors) - 1
        matrices = [feedback.tensors[f"B.{min(layer, last)}"].to(seen.error) for layer in range(len(seen.hiddens))]
        carried = self.through(self.message(seen), matrices)
        return tuple(_shaped(credit, state) for credit, state in zip(carried, seen.hiddens, strict=True))


def _width(state: Tensor) -> int:
    """Numbers of credit per sample: the features of a token, or the whole of a flat or convolutional state."""
    return state.shape[-1] if state.dim() == 3 else state[0].numel()


def _shaped(credit: Tensor, state: Tensor) -> Tensor:
    """The credit in the shape of its state; logits at every token give credit at every token."""
    if credit.shape == state.shape:
        return credit
    return credit[:, None].expand_as(state) if state.dim() == 3 else credit.view_as(state)
