"""Equilibrium propagation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from creditscope.arguments import check_choice
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.forecast import predict
from creditscope.methods.local import LocalPass, LocalRule, Normalisation, check_normalisation, forward_in_pieces
from creditscope.methods.relaxation import (
    Schedule,
    Settled,
    held_statistics,
    nudged_loss,
    recorded_statistics,
    relax,
)
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment, Scope
from creditscope.networks.staged import StagedNetwork

REJECTED = "rejected"
TOO_MANY = 0.5  # of an epoch's relaxation steps


@method(
    "ep",
    summary="Equilibrium propagation: credit is read from the prediction errors of nudged states that have settled.",
    formula="a_l = -ε_l/β_i after T steps down E + β_i ℓ_i,  E = ½ Σ_l ‖ε_l‖²,  ε_0 = h_0 - embed(x),  "
    "ε_{l+1} = h_{l+1} - F_l(h_l)",
    paper="Scellier and Bengio (2017); this energy: Whittington and Bogacz (2017)",
    identities={
        "settled credit tends to the gradient with β at order 1, two-sided at order 2": (
            "tests/methods/test_ep.py::test_credit_converges_to_the_gradient_with_beta_at_its_order"
        ),
        "settled updates are those of backprop, to 1e-4": (
            "tests/methods/test_ep.py::test_settled_updates_are_those_of_backprop"
        ),
    },
    fails="A step that is too long for the curvature ruins the credit silently where the guard is switched off. Too "
    "few steps leave the first states unsettled, and a large β biases the credit.",
)
@dataclass(frozen=True)
class EquilibriumPropagation(LocalRule):
    """Credit is read from the prediction errors that remain when nudged states have settled.

    F_l(h) is the state that block l makes of h, h + f_l(h) in a residual stream. The steps start from the forward pass.
    β_i = κ‖h_L,i‖/‖g_L,i‖, or one fixed β if `beta` is not 0. two_sided: a_l = -(ε_l⁺ - ε_l⁻)/(2β_i).

    As β → 0 at equilibrium a_l → g_l. The guard takes back a sample's step if E + βℓ rose, and halves its step size;
    a run in which more than half of an epoch's steps were taken back stops. BatchNorm keeps the statistics of the
    free phase while the states settle, as constants: samples settle independently of each other.

    updates_at = "nudged"  the blocks' vector-Jacobian products are those at the settled h_l, not at the free ones
    too_short              accept fewer steps than L + 1, with which the credit of the first states is 0
    """

    normalisation: Normalisation = "none"
    kappa: float = 0.01
    beta: float = 0.0
    steps: int = 20
    step_size: float = 0.1
    two_sided: bool = False
    guard: bool = True
    updates_at: Literal["free", "nudged"] = "free"
    too_short: bool = False

    uses_weights_above = True

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        for name in ("kappa", "step_size"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(
                    f"{name} must be a positive number, got {getattr(self, name)!r}.\n"
                    "The states would not settle under E + βℓ, and credit would be noise. "
                    f"The default is {getattr(type(self), name)}."
                )
        if not 0 <= self.beta < float("inf"):
            raise InvalidInput(
                f"beta must be a finite number of at least 0, got {self.beta!r}.\n"
                "The rule itself chooses the sign of the nudge. Give a small β, or 0 for β_i = κ‖h_L‖/‖g_L‖."
            )

        check_choice(
            "updates_at", self.updates_at, ("free", "nudged"), "It decides where the blocks are differentiated."
        )
        if self.two_sided and self.updates_at == "nudged":
            raise InvalidInput(
                "updates_at = 'nudged' was given together with two_sided.\n"
                "Two nudges settle at two points, and neither is meant. Choose one of the two options."
            )

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """No feedback; refuses a relaxation that is too short to reach h_0."""
        if self.steps < network.depth + 1 and not self.too_short:
            raise InvalidInput(
                f"steps must be at least {network.depth + 1} for {network.depth} blocks, got {self.steps}.\n"
                "A nudge moves down one state per step, so the credit of h_0 would be 0. "
                "Give more steps, or too_short = true."
            )
        return Feedback()

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """A free forward pass, the relaxation, and the stages' products at the free or nudged states."""
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        with held_statistics(statistics):
            beta = self.nudge(network, seen)
            settled = self.settle(network, seen, beta)
            at = seen
            if self.updates_at == "nudged":
                stages = (seen.stages[0], *predict(network, settled[0].states).predicted)
                at = replace(seen, pieces=replace(seen.pieces, stages=stages))
        update = self.update(network, at, _signals(settled, beta), scope)
        rejected = torch.stack([side.rejected for side in settled]).mean()
        objective = torch.cat([side.objective for side in settled]).abs().mean()
        return replace(update, auxiliary={REJECTED: rejected, "objective": objective})

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The credit; if the relaxation is not finite, the run stops before a weight changes."""
        credit = self.credit(network, feedback, batch, scope)
        if not bool(credit.auxiliary["objective"].isfinite()):
            raise Diverged(f"the relaxation's E + βℓ was {credit.auxiliary['objective'].item()}")
        return credit

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """a_0..a_L, with BatchNorm as the network's mode has it."""
        beta = self.nudge(network, seen)
        return _signals(self.settle(network, seen, beta), beta)

    def nudge(self, network: StagedNetwork, seen: LocalPass) -> Tensor:
        """β_i of every sample; 0 where the loss has no slope."""
        deepest = seen.hiddens[-1]
        one = torch.ones_like(seen.error[:, 0])
        if self.beta:
            return one * self.beta
        _, slope = nudged_loss(network, deepest, seen.labels, one)
        beta = self.kappa * deepest.flatten(1).norm(dim=1) / slope.flatten(1).norm(dim=1)
        return torch.where(beta.isfinite(), beta, 0.0)

    def settle(self, network: StagedNetwork, seen: LocalPass, beta: Tensor) -> list[Settled]:
        """Where the states settle under +β and, if two-sided, under -β."""
        schedule = Schedule(self.steps, self.step_size, self.guard)
        sides = (beta, -beta) if self.two_sided else (beta,)
        return [relax(network, seen.hiddens, seen.labels, side, schedule) for side in sides]

    def objection(self, auxiliary: Mapping[str, float]) -> str | None:
        """Stops the run when the guard took back more than half of an epoch's steps."""
        if not auxiliary.get(REJECTED, 0.0) > TOO_MANY:
            return None
        return (
            f"the guard took back {auxiliary[REJECTED]:.0%} of the epoch's relaxation steps: "
            f"step_size = {self.step_size:g} is too large for this network, and its credit is not settled"
        )


def _signals(settled: list[Settled], beta: Tensor) -> tuple[Tensor, ...]:
    """-ε/β, or half the difference of the two sides; 0 where β is 0."""
    sides = zip(*(side.errors for side in settled), strict=True)
    return tuple(_credit(errors, beta.view(-1, *[1] * (errors[0].dim() - 1))) for errors in sides)


def _credit(errors: tuple[Tensor, ...], beta: Tensor) -> Tensor:
    risen = errors[0] if len(errors) == 1 else (errors[0] - errors[1]) / 2
    return torch.where(beta > 0, -risen / beta, 0.0)
