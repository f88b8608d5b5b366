"""Direct random target projection: the labels alone, through fixed random matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.dfa import DirectFeedback
from creditscope.methods.local import LocalPass, forward_in_pieces, normalise
from creditscope.methods.rule import EVERYTHING, Feedback, Scope
from creditscope.networks.staged import StagedNetwork


@method(
    "drtp",
    summary="Direct random target projection: every state receives its label through its own fixed random matrix.",
    formula="a_l = -y B_l,  y = onehot(labels)",
    feedback="B_l (classes × features of h_l) ~ N(0, 1)/√classes, drawn once",
    paper="Frenkel, Lefebvre and Bol (2021)",
    identities={
        "DRTP = DFA - softmax(logits) B_l": "tests/methods/test_drtp.py::test_dfa_is_the_projected_answer_plus_drtp",
        "credit does not move with the logits": (
            "tests/methods/test_drtp.py::test_credit_does_not_move_with_the_logits"
        ),
    },
    fails="A sample that is already right is pushed as hard as one that is wrong, and nothing stops the stream from "
    "growing: it shares the failures of DFA.",
)
@dataclass(frozen=True)
class TargetProjection(DirectFeedback):
    """Every state receives the one-hot label through its own fixed random matrix; options as those of DFA.

    DFA = softmax(logits) B_l + DRTP, so that this credit knows the sign of DFA's and does not move with the logits. The
    published code has +y B_l, which is the same with -B_l.
    """

    carries = "target"

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """As of DFA; all samples of a class have the same credit, so that it is normalised once for each class."""
        if self.normalisation != "sample":
            return super().credit(network, feedback, batch, scope)
        seen = forward_in_pieces(network, batch, scope)
        matrices = {name: matrix.to(seen.error) for name, matrix in feedback.tensors.items()}
        cotangents = self.signals(network, Feedback(_normalised(matrices, seen.count)), seen)
        return self.update(network, seen, self.signals(network, feedback, seen), scope, cotangents)

    def message(self, seen: LocalPass) -> Tensor:
        """The number of each sample's class."""
        if seen.labels.dim() != 1 or seen.labels.is_floating_point():
            raise InvalidInput(
                f"drtp needs one class number per sample, got labels of shape {tuple(seen.labels.shape)}.\n"
                "There is no one-hot target to project. Use 'dfa', which projects the error of any loss."
            )
        return seen.labels.long()

    def through(self, message: Tensor, matrices: Sequence[Tensor]) -> Sequence[Tensor]:
        """-y B: the row of each label, negative; matrices of one shape together, since the operations are small."""
        if len({matrix.shape for matrix in matrices}) == 1:
            return (-torch.stack(list(matrices))).index_select(1, message).unbind()
        return [(-matrix).index_select(0, message) for matrix in matrices]


def _normalised(matrices: Mapping[str, Tensor], count: int) -> dict[str, Tensor]:
    """Every row divided by its rms and by `count`; matrices of one shape together."""
    if len({matrix.shape for matrix in matrices.values()}) == 1:
        rows = normalise(torch.cat(list(matrices.values())), "sample").div_(count)
        return dict(zip(matrices, rows.chunk(len(matrices)), strict=True))
    return {name: normalise(matrix, "sample").div_(count) for name, matrix in matrices.items()}
