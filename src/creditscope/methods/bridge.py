"""Rules with networks that learn alongside: the order of a step, and the common part of the two bridges."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods.local import (
    Index,
    LocalPass,
    LocalRule,
    Normalisation,
    check_index,
    check_normalisation,
    forward_in_pieces,
)
from creditscope.methods.relaxation import held_statistics, recorded_statistics
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment, Scope, example_states
from creditscope.networks.staged import StagedNetwork, initialise
from creditscope.randomness import forked_rng

WIDTH = 256
LEARNING_RATE = 1e-3
LOSS, RESIDUAL = "bridge_loss", "bridge_residual"


class Affine(nn.Linear):
    """Computes in the precision of its input: an audit in float64 needs no second copy of an auxiliary network."""

    def forward(self, input: Tensor) -> Tensor:
        """x Wᵀ + b."""
        return F.linear(input, self.weight.to(input), self.bias.to(input))


class BridgeNetwork(nn.Module):
    """An MLP with SiLU on [h_l, l/L, s·e]; it sees h/rms(h) if it is scale-free, and s is `error_scale`."""

    def __init__(
        self, widths: list[int], *, scale_free: bool, error_scale: float = 1.0, generator: torch.Generator
    ) -> None:
        super().__init__()
        with forked_rng():  # nn.Linear draws from the global generator, which is not ours
            self.layers = nn.ModuleList(Affine(below, above) for below, above in pairwise(widths))
        self.scale_free, self.error_scale = scale_free, error_scale
        initialise(self, generator)

    def forward(self, state: Tensor, position: Tensor, error: Tensor) -> Tensor:
        """state (..., N, d), position (..., 1) and error (N, classes) broadcast to (..., N, out)."""
        if self.scale_free:
            state = state / state.square().mean(-1, keepdim=True).sqrt().clamp_min(torch.finfo(state.dtype).tiny)
        if self.error_scale != 1:
            error = self.error_scale * error
        around = state.shape[:-1]
        signal = torch.cat([state, position.expand(*around, 1), error.expand(*around, error.shape[-1])], -1)
        for index, layer in enumerate(self.layers):
            signal = layer(F.silu(signal) if index else signal)
        return signal


@dataclass(frozen=True, slots=True)
class AuxiliaryLoss:
    """The loss of the auxiliary network on one batch, with its graph, and the bridge residual."""

    loss: Tensor
    residual: Tensor


@dataclass(frozen=True)
class AuxiliaryRule(LocalRule):
    """A rule whose credit comes from networks that learn alongside.

    A step: forward, auxiliary update, credit from the updated auxiliary networks, network update. BatchNorm keeps the
    statistics of the forward pass until the step is over.
    """

    noted: ClassVar[tuple[str, str]] = (LOSS, RESIDUAL)  # names of the auxiliary loss and its residual in the history

    @abstractmethod
    def auxiliary_loss(
        self, network: StagedNetwork, feedback: Feedback, seen: LocalPass, generator: torch.Generator
    ) -> AuxiliaryLoss:
        """The auxiliary loss on one batch."""

    def after_auxiliary_step(self, feedback: Feedback) -> None:
        """Called after every auxiliary update."""

    def restrict_credit(self, credit: Credit, seen: LocalPass, moment: Moment) -> Credit:
        """The part of the credit that the network learns from at this moment: all of it."""
        return credit

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """Forward, auxiliary update, credit; the caller updates the network."""
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        with held_statistics(statistics):
            auxiliary = self.auxiliary_loss(network, feedback, seen, moment.generator)
            if not bool(auxiliary.loss.isfinite()):
                raise Diverged(f"the loss of the auxiliary network was {auxiliary.loss.item()}")
            step_auxiliary(feedback, auxiliary.loss)
            self.after_auxiliary_step(feedback)
            update = self.update(network, seen, self.signals(network, feedback, seen), scope)
        noted = dict(zip(self.noted, (auxiliary.loss.detach(), auxiliary.residual), strict=True))
        return replace(self.restrict_credit(update, seen, moment), auxiliary=noted)

    def residual(self, network: StagedNetwork, feedback: Feedback, batch: Batch, generator: torch.Generator) -> Tensor:
        """The residual of the auxiliary networks on a batch; nothing learns."""
        return self.auxiliary_loss(network, feedback, forward_in_pieces(network, batch, EVERYTHING), generator).residual


def learner(networks: nn.ModuleDict) -> torch.optim.Optimizer | None:
    """Adam at a constant 1e-3 for the auxiliary parameters that require a gradient; None if there are none."""
    learning = [parameter for parameter in networks.parameters() if parameter.requires_grad]
    return torch.optim.Adam(learning, lr=LEARNING_RATE, fused=True) if learning else None


@dataclass(frozen=True)
class BridgeRule(AuxiliaryRule):
    """An auxiliary network that serves every layer, for flat streams of one width.

    scale_free   it sees h/rms(h) in place of h
    error_scale  it sees s·e in place of e; s = 1/N gives the gradient of the mean loss over N samples at the logits
    index        a block learns from the credit of its output, or of its input
    """

    normalisation: Normalisation = "sample"
    scale_free: bool = False
    error_scale: float = 1.0
    index: Index = "output"

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        check_index(self.index)
        if not 0 < self.error_scale < float("inf"):
            raise InvalidInput(
                f"error_scale must be a positive number, got {self.error_scale!r}.\n"
                "The auxiliary network would not see the error as it is. The default is 1."
            )

    def bridge_network(self, widths: list[int], generator: torch.Generator) -> BridgeNetwork:
        """An auxiliary network that sees states and errors as this rule says."""
        return BridgeNetwork(widths, scale_free=self.scale_free, error_scale=self.error_scale, generator=generator)

    @abstractmethod
    def auxiliary(self, width: int, classes: int, generator: torch.Generator) -> nn.ModuleDict:
        """The auxiliary networks; those whose parameters require a gradient learn."""

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """The auxiliary networks and their optimiser, Adam at a constant 1e-3."""
        states, logits = example_states(network, example)
        shapes = {tuple(state.shape[1:]) for state in states}
        if len(shapes) > 1 or states[0].dim() != 2:
            raise InvalidInput(
                f"The states of {network.title} have the shapes {', '.join(map(str, sorted(shapes)))}, but "
                f"{type(self).__name__} needs flat states of one width.\n"
                "One auxiliary network serves every layer and cannot take these. "
                f"Use {' or '.join(map(repr, self.networks or ()))}, or another method."
            )
        networks = self.auxiliary(states[0].shape[1], logits.shape[1], generator)
        return Feedback({}, networks, learner(networks))


def step_auxiliary(feedback: Feedback, loss: Tensor) -> None:
    """One step of the auxiliary optimiser."""
    if feedback.optimiser is None or not loss.requires_grad:
        return
    learning = feedback.optimiser.param_groups[0]["params"]
    for parameter, gradient in zip(learning, torch.autograd.grad(loss, learning, allow_unused=True), strict=True):
        parameter.grad = None if gradient is None else gradient.contiguous()
    feedback.optimiser.step()


def module(feedback: Feedback, name: str) -> nn.Module:
    """An auxiliary network by name."""
    if feedback.networks is None or name not in feedback.networks:
        raise InvalidInput(
            f"There is no auxiliary network {name!r} in the feedback.\n"
            "Credit from a fresh one would not be the credit that trained the network. Load it from the checkpoint."
        )
    return feedback.networks[name]


def positions(depth: int, like: Tensor) -> Tensor:
    """l/L for l = 0..L; a network without blocks has the deepest state only, at 1."""
    return torch.arange(depth + 1, device=like.device, dtype=like.dtype) / depth if depth else like.new_ones(1)


def drawn_layers(depth: int, error: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A layer l < L for every sample (0 where there is no block), and the index of every sample."""
    layers = torch.randint(max(depth, 1), (len(error),), generator=generator)
    return layers.to(error.device), torch.arange(len(error), device=error.device)
