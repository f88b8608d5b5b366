"""Local losses: every state has a read-out of its own, whose loss trains the stage below it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.arguments import check_choice
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.bridge import learner
from creditscope.methods.local import LocalPass, LocalRule, Normalisation, check_normalisation, forward_in_pieces
from creditscope.methods.local import output_error as output_error
from creditscope.methods.rule import EVERYTHING, Feedback, Moment, Scope, example_states
from creditscope.networks.staged import StagedNetwork

Prediction = Literal["network", "last", "sum"]


class Head(nn.Module):
    """M_l (classes x d); computes in the precision of its input."""

    def __init__(self, features: int, classes: int, generator: torch.Generator) -> None:
        super().__init__()
        bound = features**-0.5
        self.weight = nn.Parameter(torch.empty(classes, features).uniform_(-bound, bound, generator=generator))

    def forward(self, vectors: Tensor) -> Tensor:
        """M_l h_l."""
        return F.linear(vectors, self.weight.to(vectors))


@method(
    "local_loss",
    summary="Local losses: every state has a linear head of its own, and the gradient of its loss is the credit.",
    formula="a_l = ∂CE(M_l h_l, y)/∂h_l,  M_l trained on the same loss",
    reference="the loss of each state's own head",
    paper="Nøkland and Eidnes (2019); summed predictions: Mono-Forward, Gong, Li and Abdulla (2025)",
    identities={
        "weights above a state do not reach its credit": (
            "tests/methods/test_local_loss.py::test_weights_above_do_not_reach_the_credit"
        ),
        "a block under the read-out whose head is the read-out learns by backprop": (
            "tests/methods/test_local_loss.py::test_a_block_under_the_read_out_whose_head_is_the_read_out_learns_by_backprop"
        ),
    },
    fails="It is greedy: early blocks learn what a linear head can read at once, and may discard what later blocks "
    "need.",
)
@dataclass(frozen=True)
class LocalLoss(LocalRule):
    """Every state h_0..h_L has a head M_l, which learns by its own gradient, by Adam at 1e-3.

    A head reads the token that the network reads, or the mean over positions. Nothing above a state reaches its credit;
    that its own head is the read-out makes a block's credit that of backprop. `prediction`: by the network's read-out,
    by the last head, or by the sum of all heads.
    """

    normalisation: Normalisation = "none"
    prediction: Prediction = "network"

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        check_choice("prediction", self.prediction, get_args(Prediction), "It decides whose accuracy is reported.")

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """One head per state, and their optimiser."""
        states, logits = example_states(network, example)
        widths = [_read(state, network.token).shape[1] for state in states]
        heads = {f"M{layer}": Head(width, logits.shape[-1], generator) for layer, width in enumerate(widths)}
        networks = nn.ModuleDict(heads)
        return Feedback({}, networks, learner(networks))

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """(softmax(M_l h_l) - y) M_l, at the positions that the head reads."""
        return self._judged(network, feedback, seen)[0]

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The credit, and then a step of the heads."""
        seen = forward_in_pieces(network, batch, scope)
        signals, gradients, loss = self._judged(network, feedback, seen)
        if feedback.optimiser is not None:
            for head, gradient in zip(_heads(feedback), gradients, strict=True):
                head.weight.grad = gradient.to(head.weight)
            feedback.optimiser.step()
        return replace(self.update(network, seen, signals, scope), auxiliary={"head_loss": loss})

    def own_reference(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING
    ) -> Credit:
        """∂CE(M_l h_l, y)/∂h_l of every sample by autograd, not normalised, and its products with the stages."""
        seen = forward_in_pieces(network, batch, scope)
        leaves = [state.clone().requires_grad_() for state in seen.hiddens]
        with torch.enable_grad():
            read = [head(_read(h, network.token)) for head, h in zip(_heads(feedback), leaves, strict=True)]
            total = torch.stack([F.cross_entropy(logits, seen.labels, reduction="sum") for logits in read]).sum()
            signals = torch.autograd.grad(total, leaves)
        return replace(self, normalisation="none").update(network, seen, signals, Scope(scope.trained))

    @torch.no_grad()
    def _judged(
        self, network: StagedNetwork, feedback: Feedback, seen: LocalPass
    ) -> tuple[tuple[Tensor, ...], list[Tensor], Tensor]:
        """a_0..a_L, the heads' gradients of their mean losses, and the mean of these losses."""
        _check_labels(seen.labels)
        signals, gradients, losses = [], [], []
        for head, state in zip(_heads(feedback), seen.hiddens, strict=True):
            vectors = _read(state, network.token)
            logits = head(vectors)
            error = output_error(logits, seen.labels)
            signals.append(_placed(error @ head.weight.to(error), state, network.token))
            gradients.append(error.T @ vectors / len(error))
            losses.append(F.cross_entropy(logits, seen.labels))
        return tuple(signals), gradients, torch.stack(losses).mean()

    @torch.no_grad()
    def answers(self, network: StagedNetwork, feedback: Feedback, inputs: Tensor) -> Tensor | None:
        """Logits of the last head, or summed over all heads; None if the network itself predicts."""
        if self.prediction == "network":
            return None
        states = network.walk(inputs).states
        goodness = [head(_read(h, network.token)) for head, h in zip(_heads(feedback), states, strict=True)]
        return goodness[-1] if self.prediction == "last" else torch.stack(goodness).sum(0)


def _heads(feedback: Feedback) -> list[Head]:
    """M_0..M_L."""
    held = [] if feedback.networks is None else list(feedback.networks.values())
    heads = [head for head in held if isinstance(head, Head)]
    if not heads:
        raise InvalidInput(
            "The feedback holds no heads.\n"
            "Credit from fresh ones would not be the credit that trained the network. Load them from the checkpoint."
        )
    return heads


def _read(state: Tensor, token: str | int) -> Tensor:
    """What a head reads of a state: a flat state, one token, or the mean over positions."""
    if state.dim() == 2:
        return state
    if state.dim() == 4:
        return state.mean((2, 3))
    return state.mean(1) if token in ("mean", "all") else state[:, _index(token)]


def _placed(credit: Tensor, state: Tensor, token: str | int) -> Tensor:
    """The credit of what was read, in the shape of the state: the product with ∂read/∂state."""
    if state.dim() == 2:
        return credit
    if state.dim() == 4:
        return (credit[:, :, None, None] / state[0, 0].numel()).expand_as(state)
    if token in ("mean", "all"):
        return (credit[:, None] / state.shape[1]).expand_as(state)
    placed = torch.zeros_like(state)
    placed[:, _index(token)] = credit
    return placed


def _index(token: str | int) -> int:
    return token if isinstance(token, int) else 0


def _check_labels(labels: Tensor) -> None:
    if labels.dim() != 1 or labels.is_floating_point():
        raise InvalidInput(
            f"local_loss needs one class number per sample, got labels of shape {tuple(labels.shape)}.\n"
            "Its heads classify. Use another method for other targets."
        )
