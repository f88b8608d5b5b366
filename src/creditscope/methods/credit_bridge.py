"""Credit Bridge: a learned value of every state, whose slope is the credit."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from creditscope.arguments import check_choice
from creditscope.credit import Credit
from creditscope.methods import method
from creditscope.methods.bridge import WIDTH, AuxiliaryLoss, BridgeRule, drawn_layers, module, positions
from creditscope.methods.forecast import predict
from creditscope.methods.local import LocalPass
from creditscope.methods.rule import Feedback, Moment
from creditscope.networks.staged import StagedNetwork

VALUE, AVERAGE = "value", "average"
DECAY = 0.995  # of V̄, the running average of V's weights
NOISES, SIGMA, TAU = 8, 0.1, 0.1  # K, σ (absolute) and τ of the soft minimum
WARM_UP = 0.2  # share of the steps in which only V and the read-out learn


@method(
    "credit_bridge",
    summary="Credit Bridge: a network V learns the value of every state, last one first; credit is its gradient.",
    formula="a_l = ∇_h V(h_l, l/L, e),  V trained on (V(h_l) - target_l)² and on ∇V(h_L) = g_L",
    paper="Hao, Wan and Zhai (2026)",
    networks=("resmlp", "student_net", "mlp", "mupc_mlp"),
    identities={
        "where the value is known, ∇V learns the true costate at every layer (cosine > 0.9)": (
            "tests/methods/test_credit_bridge.py::test_the_slope_of_the_value_becomes_the_true_costate_at_every_layer"
        ),
    },
    fails="On the raw stream the blocks follow ∇V until the stream explodes and the reference gradient vanishes, on "
    "two of three seeds in the reproduction on CIFAR-10. `scale_free` keeps the scale. Streams must be flat and "
    "of one width.",
)
@dataclass(frozen=True)
class CreditBridge(BridgeRule):
    """A network V learns what a state is worth, backwards from the last one; credit is its slope.

        target_l = -τ log((1/K) Σ_k exp(-V̄(h_{l+1} + σξ_k, (l+1)/L, e)/τ)),   ξ ~ N(0, I), K = 8, σ = τ = 0.1
        loss of V = mean(V(h_l) - target_l)² + mean‖∇V(h_L) - g_L‖² / mean‖g_L‖²

    V = MLP([h_l, l/L, e]) → 1 has 3 hidden layers of 256 with SiLU; V̄ is a running average of V (0.995). One layer
    l < L is drawn per sample and step. V is never trained on the loss itself: e determines it, so that V would learn to
    ignore h. For the first fifth of the steps only V and the read-out learn. The bridge residual is the median of
    |V(h_l) - target_l|.

    matching = "every"  ∇V(h_l) learns g_l at every layer, the mean of the relative errors; g_l comes from backprop
    target = "plain"    target_l = V̄(h_{l+1}, (l+1)/L, e), without noise
    warm_up = "weight"  the updates of embedding and blocks grow linearly from 0 over the first fifth of the steps
    """

    matching: Literal["top", "every"] = "top"
    target: Literal["soft_minimum", "plain"] = "soft_minimum"
    warm_up: Literal["gate", "weight"] = "gate"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("matching", self.matching, ("top", "every"), "It decides where V learns the true gradient.")
        check_choice("target", self.target, ("soft_minimum", "plain"), "It decides what V learns of the next state.")
        check_choice("warm_up", self.warm_up, ("gate", "weight"), "It decides when the blocks begin to follow V.")

    def auxiliary(self, width: int, classes: int, generator: torch.Generator) -> nn.ModuleDict:
        """V and its running average V̄."""
        widths = [width + 1 + classes, WIDTH, WIDTH, WIDTH, 1]
        value = self.bridge_network(widths, generator)
        return nn.ModuleDict({VALUE: value, AVERAGE: copy.deepcopy(value).requires_grad_(False)})

    def auxiliary_loss(
        self, network: StagedNetwork, feedback: Feedback, seen: LocalPass, generator: torch.Generator
    ) -> AuxiliaryLoss:
        """Consistency from layer to layer, and the true gradient at the last one or at every one."""
        gradients = [seen.deepest] if self.matching == "top" else true_gradients(network, seen)
        noises = NOISES if self.target == "soft_minimum" else 0
        states = torch.stack(seen.hiddens)
        return value_loss(feedback, states, seen.error, torch.stack(gradients), generator, noises=noises)

    def after_auxiliary_step(self, feedback: Feedback) -> None:
        """V̄ ← 0.995 V̄ + 0.005 V."""
        pairs = zip(module(feedback, AVERAGE).parameters(), module(feedback, VALUE).parameters(), strict=True)
        with torch.no_grad():
            for average, value in pairs:
                average.lerp_(value, 1 - DECAY)

    def restrict_credit(self, credit: Credit, seen: LocalPass, moment: Moment) -> Credit:
        """While V warms up, the read-out's gradients alone, or the others by a growing weight."""
        if moment.progress >= WARM_UP:
            return credit
        if self.warm_up == "gate":
            return replace(credit, gradients=dict(seen.readout))
        share = moment.progress / WARM_UP
        inner = {name: share * gradient for name, gradient in credit.gradients.items() if name not in seen.readout}
        return replace(credit, gradients={**inner, **seen.readout})

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """The slope of V at all layers, in one pass."""
        return tuple(value_slope(feedback, torch.stack(seen.hiddens), seen.error))


def value_slope(feedback: Feedback, states: Tensor, error: Tensor) -> Tensor:
    """∇_h V at h_0..h_L; states and slopes (L+1, N, d)."""
    with torch.enable_grad():
        leaves = states.detach().requires_grad_()
        position = positions(len(states) - 1, error)[:, None, None]
        (slope,) = torch.autograd.grad(module(feedback, VALUE)(leaves, position, error).sum(), leaves)
    return slope


def true_gradients(network: StagedNetwork, seen: LocalPass) -> list[Tensor]:
    """g_0..g_L: each sample's own loss, taken back from g_L block by block."""
    forecast, gradients = predict(network, list(seen.hiddens)), [seen.deepest]
    for below, predicted in zip(reversed(forecast.below), reversed(forecast.predicted), strict=True):
        gradients[:0] = torch.autograd.grad(predicted, below, gradients[0])
    return gradients


def value_loss(
    feedback: Feedback,
    states: Tensor,
    error: Tensor,
    gradients: Tensor,
    generator: torch.Generator,
    *,
    noises: int = NOISES,
) -> AuxiliaryLoss:
    """The loss of V: states (L+1, N, d), what it sees besides (N, classes), gradients of the last k states (k, N, d).

    A network without blocks has no layer below the last: the gradient there is all that V is trained on.
    """
    depth, value, matched = len(states) - 1, module(feedback, VALUE), len(gradients)
    with torch.enable_grad():
        last = states[-matched:].detach().requires_grad_()
        at_last = value(last, positions(depth, error)[-matched:, None, None], error).sum()
        (slope,) = torch.autograd.grad(at_last, last, create_graph=True)
        apart = (slope - gradients).square().sum(-1).mean(-1)
        loss = (apart / gradients.square().sum(-1).mean(-1)).mean()
        if depth == 0:
            return AuxiliaryLoss(loss, torch.zeros_like(loss))
        layers, rows = drawn_layers(depth, error, generator)
        target = soft_minimum(feedback, states[layers + 1, rows], (layers + 1) / depth, error, generator, noises)
        missed = value(states[layers, rows], positions(depth, error)[layers, None], error)[:, 0] - target
        return AuxiliaryLoss(loss + missed.square().mean(), missed.detach().abs().median())


@torch.no_grad()
def soft_minimum(
    feedback: Feedback,
    states: Tensor,
    position: Tensor,
    error: Tensor,
    generator: torch.Generator,
    noises: int = NOISES,
) -> Tensor:
    """-τ log((1/K) Σ_k exp(-V̄(h + σξ_k)/τ)), one number per sample; V̄(h) itself for K = 0."""
    if not noises:
        plain: Tensor = module(feedback, AVERAGE)(states, position.to(states)[:, None], error)[..., 0]
        return plain
    noise = torch.randn(noises, *states.shape, generator=generator, dtype=states.dtype).to(states.device)
    values = module(feedback, AVERAGE)(states + SIGMA * noise, position.to(states)[:, None], error)[..., 0]
    return -TAU * (torch.logsumexp(-values / TAU, 0) - math.log(noises))
