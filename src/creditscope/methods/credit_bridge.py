"""Credit Bridge: a learned value of every state, whose slope is the credit."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from creditscope.credit import Credit
from creditscope.methods import method
from creditscope.methods.bridge import WIDTH, AuxiliaryLoss, BridgeNetwork, BridgeRule, drawn_layers, module, positions
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
    fails="On the raw stream the blocks follow ∇V until the stream explodes and the reference gradient vanishes. "
    "`scale_free` keeps the scale. Streams must be flat and of one width.",
)
@dataclass(frozen=True)
class CreditBridge(BridgeRule):
    """A network V learns what a state is worth, backwards from the last one; credit is its slope.

        target_l = -τ log((1/K) Σ_k exp(-V̄(h_{l+1} + σξ_k, (l+1)/L, e)/τ)),   ξ ~ N(0, I), K = 8, σ = τ = 0.1
        loss of V = mean(V(h_l) - target_l)² + mean‖∇V(h_L) - g_L‖² / mean‖g_L‖²

    V = MLP([h_l, l/L, e]) → 1 has 3 hidden layers of 256 with SiLU; V̄ is a running average of V (0.995). One layer
    l < L is drawn per sample and step. V is never trained on the loss itself: e determines it, so that V would learn to
    ignore h. For the first fifth of the steps only V and the read-out learn. The bridge residual is the median of
    |V(h_l) - target_l|. scale_free: V sees h/rms(h).
    """

    def auxiliary(self, width: int, classes: int, generator: torch.Generator) -> nn.ModuleDict:
        """V and its running average V̄."""
        widths = [width + 1 + classes, WIDTH, WIDTH, WIDTH, 1]
        value = BridgeNetwork(widths, scale_free=self.scale_free, generator=generator)
        return nn.ModuleDict({VALUE: value, AVERAGE: copy.deepcopy(value).requires_grad_(False)})

    def auxiliary_loss(
        self, network: StagedNetwork, feedback: Feedback, seen: LocalPass, generator: torch.Generator
    ) -> AuxiliaryLoss:
        """Consistency from layer to layer, and the true gradient at the last one."""
        return value_loss(feedback, torch.stack(seen.hiddens), seen.error, seen.deepest, generator)

    def after_auxiliary_step(self, feedback: Feedback) -> None:
        """V̄ ← 0.995 V̄ + 0.005 V."""
        pairs = zip(module(feedback, AVERAGE).parameters(), module(feedback, VALUE).parameters(), strict=True)
        with torch.no_grad():
            for average, value in pairs:
                average.lerp_(value, 1 - DECAY)

    def restrict_credit(self, credit: Credit, seen: LocalPass, moment: Moment) -> Credit:
        """While V warms up, the read-out's gradients alone."""
        return replace(credit, gradients=dict(seen.readout)) if moment.progress < WARM_UP else credit

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


def value_loss(
    feedback: Feedback, states: Tensor, error: Tensor, deepest: Tensor, generator: torch.Generator
) -> AuxiliaryLoss:
    """The loss of V: states (L+1, N, d), what it sees besides (N, classes), g_L (N, d).

    A network without blocks has no layer below the last: the gradient there is all that V is trained on.
    """
    depth, value = len(states) - 1, module(feedback, VALUE)
    with torch.enable_grad():
        last = states[-1].detach().requires_grad_()
        at_last = value(last, positions(depth, error)[-1:], error).sum()
        (slope,) = torch.autograd.grad(at_last, last, create_graph=True)
        loss = (slope - deepest).square().sum(-1).mean() / deepest.square().sum(-1).mean()
        if depth == 0:
            return AuxiliaryLoss(loss, torch.zeros_like(loss))
        layers, rows = drawn_layers(depth, error, generator)
        target = soft_minimum(feedback, states[layers + 1, rows], (layers + 1) / depth, error, generator)
        missed = value(states[layers, rows], positions(depth, error)[layers, None], error)[:, 0] - target
        return AuxiliaryLoss(loss + missed.square().mean(), missed.detach().abs().median())


@torch.no_grad()
def soft_minimum(
    feedback: Feedback, states: Tensor, position: Tensor, error: Tensor, generator: torch.Generator
) -> Tensor:
    """-τ log((1/K) Σ_k exp(-V̄(h + σξ_k)/τ)), one number per sample."""
    noise = torch.randn(NOISES, *states.shape, generator=generator, dtype=states.dtype).to(states.device)
    values = module(feedback, AVERAGE)(states + SIGMA * noise, position.to(states)[:, None], error)[..., 0]
    return -TAU * (torch.logsumexp(-values / TAU, 0) - math.log(NOISES))
