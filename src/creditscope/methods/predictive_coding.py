"""Predictive coding: plain, with Lagrange multipliers, and with fixed predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

import torch
from torch import Tensor, nn

from creditscope.arguments import check_choice
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.bridge import module
from creditscope.methods.curvature import Curvature, largest_curvature
from creditscope.methods.forecast import Levels, each, predict
from creditscope.methods.local import (
    LocalPass,
    LocalRule,
    Normalisation,
    check_normalisation,
    forward_in_pieces,
    read_out,
)
from creditscope.methods.loss import each_loss
from creditscope.methods.relaxation import held_statistics, nudged_loss, recorded_statistics, slack
from creditscope.methods.rule import EVERYTHING, Diverged, Feedback, Moment, Scope, example_states
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.isolation import evaluating

CURVATURE = "curvature"
ENERGY, RISEN = "energy", "risen"
TOO_MANY = 0.5  # of an epoch's samples
NO_BLOCK = Scope(trained=frozenset())

Prediction = Literal["free", "fixed"]


@dataclass(frozen=True, slots=True)
class Relaxed:
    """The states z_0..z_L after T steps, their errors ε_l, the tensions ρ ε_l + λ_l, and F_l(z_l) in its graph."""

    states: list[Tensor]
    errors: list[Tensor]
    tensions: list[Tensor]
    predicted: list[Tensor]

    @property
    def signals(self) -> tuple[Tensor, ...]:
        """a_l, the negative tensions."""
        return tuple(-tension for tension in self.tensions)


@method(
    "predictive_coding",
    summary="Predictive coding: the states descend an energy of prediction errors; credit is what remains of them.",
    formula="a_l = -ε_l after T steps down E = ℓ(readout(z_L)) + ½ Σ_l ‖ε_l‖²,  ε_l = z_l - F_{l-1}(z_{l-1});  with "
    "multipliers a_l = -(ρ ε_l + λ_l),  E = ℓ + (ρ/2) Σ_l ‖ε_l + λ_l/ρ‖²,  λ_l += α ε_l",
    paper="Whittington and Bogacz (2017); fixed prediction: Millidge, Tschantz and Buckley (2022); "
    "multipliers: Seely and Gould (2026)",
    identities={
        "with fixed predictions credit and updates are those of backprop": (
            "tests/methods/test_predictive_coding.py::test_fixed_predictions_are_backprop_in_signals_and_updates"
        ),
        "on a linear network it settles at backprop with multipliers (1e-6), and elsewhere without": (
            "tests/methods/test_predictive_coding.py::test_multipliers_settle_at_backprop_on_a_linear_network_and_plain_coding_does_not"
        ),
    },
    fails="Plain coding is not backprop: its equilibrium lies elsewhere. Too few steps do not reach the first "
    "states; a step that is too long raises the energy, and the run stops.",
)
@dataclass(frozen=True)
class PredictiveCoding(LocalRule):
    """The states z descend E from the forward pass, then the parameters descend ∂E/∂θ at the last z.

    ε_0 = z_0 - embed(x), and F_l(z) is the state that block l makes of z. Every step moves all states at once by
    η = 1/λ_max of the Hessian of the states at the forward pass, measured at the first batch of every epoch and saved
    with the run, or by `step_size` if that is not 0.

    multipliers           λ_l starts at 0 and grows by α ε_l after every step except the last (PC-ALM)
    prediction = "fixed"  stages and Jacobians stay those of the forward pass and η = 1: BP after L + 1 steps

    BatchNorm keeps the statistics of the forward pass. The penalty of the wrapper is that of the forward pass.
    """

    normalisation: Normalisation = "none"
    steps: int = 20
    step_size: float = 0.0
    prediction: Prediction = "free"
    multipliers: bool = False
    rho: float = 1.0
    alpha: float = 1.0

    uses_weights_above = True

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        for name, least in (("step_size", "of at least 0"), ("rho", "above 0"), ("alpha", "above 0")):
            value = getattr(self, name)
            if not 0 <= value < float("inf") or (value == 0 and name != "step_size"):
                raise InvalidInput(
                    f"{name} must be a finite number {least}, got {value!r}.\n"
                    "The states would not descend their energy, and credit would be noise. "
                    f"The default is {getattr(type(self), name):g}."
                )
        because = "It decides whether this is predictive coding or backpropagation."
        check_choice("prediction", self.prediction, get_args(Prediction), because)
        if self.multipliers and self.prediction == "fixed":
            raise InvalidInput(
                "prediction = 'fixed' was given together with multipliers.\n"
                "Fixed predictions already give the gradient after L + 1 steps, so that multipliers would have nothing "
                "to correct. Choose one of the two."
            )

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """No feedback, but λ_max on the example where the rule chooses its step; refuses too few steps."""
        if self.steps < network.depth + 1:
            raise InvalidInput(
                f"steps must be at least {network.depth + 1} for {network.depth} blocks, got {self.steps}.\n"
                "An error moves down one state per step, so the credit of h_0 would be 0. Give more steps."
            )
        if not self._measures:
            return Feedback()
        states, _ = example_states(network, example)
        with evaluating(network):
            largest = largest_curvature(network, states, example.labels, self._rho, generator)
        return Feedback({}, nn.ModuleDict({CURVATURE: Curvature(largest)}))

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """A forward pass, T steps of the states, and the stages' vector-Jacobian products at the last of them."""
        return self._credit(network, feedback, batch, scope)

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The credit, with λ_max measured first where an epoch begins; states that are not finite stop the run."""
        measuring = moment.generator if moment.opens_epoch and self._measures else None
        credit = self._credit(network, feedback, batch, scope, measuring)
        energy = credit.auxiliary.get(ENERGY)
        if energy is not None and not bool(energy.isfinite()):
            raise Diverged(f"the energy of the relaxed states was {energy.item()}")
        return credit

    def _credit(
        self,
        network: StagedNetwork,
        feedback: Feedback,
        batch: Batch,
        scope: Scope,
        measuring: torch.Generator | None = None,
    ) -> Credit:
        fixed = self.prediction == "fixed"
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope if fixed or scope.penalty else NO_BLOCK)
        with held_statistics(statistics):
            if fixed:
                return self.update(network, seen, self.signals(network, feedback, seen), scope)
            if measuring is not None:
                largest = largest_curvature(network, seen.hiddens, seen.labels, self._rho, measuring)
                _curvature(feedback).copy_(largest)
            relaxed = self.relax(network, seen, self._step(feedback, seen))
            top = read_out(network, relaxed.states[-1], seen.labels)
            noted = self._noted(network, seen, relaxed, top.logits)
        pieces = replace(seen.pieces, stages=(seen.stages[0], *relaxed.predicted))
        moved = replace(seen, pieces=pieces, readout=top.gradients)
        return replace(self.update(network, moved, relaxed.signals, scope), auxiliary=noted)

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """a_0..a_L, with BatchNorm as the network's mode has it."""
        step = self._step(feedback, seen)
        return (
            _fixed(network, seen, self.steps, step)
            if self.prediction == "fixed"
            else self.relax(network, seen, step).signals
        )

    def relax(self, network: StagedNetwork, seen: LocalPass, size: Tensor | float) -> Relaxed:
        """T simultaneous steps of the states from the forward pass; samples do not interact."""
        one = torch.ones_like(seen.error[:, 0])
        at_once = network.runs_stages_at_once and network.depth
        states: Levels = torch.stack(seen.hiddens) if at_once else list(seen.hiddens)
        multipliers = each(torch.zeros_like, states)
        slopes = each(torch.zeros_like, states)
        slopes[-1] = seen.deepest
        for left in reversed(range(self.steps)):
            states = each(lambda z, slope: z - size * slope, states, slopes)
            forecast = predict(network, states)
            errors = forecast.errors(states, seen.hiddens[0])
            if left and self.multipliers:
                multipliers = each(lambda m, error: m + self.alpha * error, multipliers, errors)
            tensions = self._tensions(errors, multipliers)
            if left:
                _, pull = nudged_loss(network, states[-1], seen.labels, one)
                slopes = forecast.slopes(tensions, pull)
        with torch.enable_grad():  # a part of a stack is a view, and belongs to the graph
            predicted = list(forecast.predicted)
        return Relaxed(list(states), list(errors), list(tensions), predicted)

    def _tensions(self, errors: Levels, multipliers: Levels) -> Levels:
        """ρ ε_l + λ_l, or ε_l without multipliers."""
        if not self.multipliers:
            return errors
        return each(lambda error, m: self.rho * error + m, errors, multipliers)

    def _noted(self, network: StagedNetwork, seen: LocalPass, relaxed: Relaxed, logits: Tensor) -> dict[str, Tensor]:
        """The mean of ½ Σ‖ε_l‖², and without multipliers the share of samples whose E ended above its start."""
        energies = torch.stack([error.flatten(1).square().sum(1) for error in relaxed.errors]).sum(0) / 2
        if self.multipliers:
            return {ENERGY: energies.mean()}
        with torch.no_grad():
            before = each_loss(network.loss_fn, network.readout(seen.hiddens[-1]), seen.labels)
        after = energies + each_loss(network.loss_fn, logits, seen.labels)
        risen = after > before + slack(after, before)
        return {ENERGY: energies.mean(), RISEN: risen.to(energies).mean()}

    def _step(self, feedback: Feedback, seen: LocalPass) -> Tensor | float:
        """η: as given, 1 for fixed predictions, else 1/λ_max as last measured."""
        if not self._measures:
            return self.step_size or 1.0
        return 1 / _curvature(feedback).to(seen.error)

    @property
    def _measures(self) -> bool:
        """Whether η is 1/λ_max."""
        return not self.step_size and self.prediction == "free"

    @property
    def _rho(self) -> float:
        return self.rho if self.multipliers else 1.0

    @property
    def exact_readout(self) -> bool:  # type: ignore[override]
        """Where predictions are fixed the read-out learns at h_L of the forward pass, else at z_L."""
        return self.prediction == "fixed"

    def exact_layers(self, depth: int) -> frozenset[int]:
        """All of them where predictions are fixed and η = 1."""
        exact = self.prediction == "fixed" and self.step_size in (0.0, 1.0)
        return frozenset(range(depth + 1)) if exact else frozenset()

    def objection(self, auxiliary: Mapping[str, float]) -> str | None:
        """Stops the run when the energy of more than half of an epoch's samples rose."""
        if not auxiliary.get(RISEN, 0.0) > TOO_MANY:
            return None
        size = f"step_size = {self.step_size:g}" if self.step_size else "1/λ_max of the epoch's first batch"
        return (
            f"the relaxation raised the energy of {auxiliary[RISEN]:.0%} of the epoch's samples: "
            f"{size} is too large a step for this network, and its credit is not settled"
        )


def _fixed(network: StagedNetwork, seen: LocalPass, steps: int, size: Tensor | float) -> tuple[Tensor, ...]:
    """-ε_l after T steps  ε_l ← ε_l - η(ε_l - J_lᵀ ε_{l+1}),  ε_L ← ε_L - η(ε_L + g_L),  J_l of the forward pass."""
    forecast, errors = predict(network, list(seen.hiddens)), [torch.zeros_like(state) for state in seen.hiddens]
    for _ in range(steps):
        slopes = forecast.slopes(errors, seen.deepest, again=True)
        errors = [error - size * slope for error, slope in zip(errors, slopes, strict=True)]
    return tuple(-error for error in errors)


def _curvature(feedback: Feedback) -> Tensor:
    """λ_max as it was last measured."""
    return cast(Curvature, module(feedback, CURVATURE)).largest
