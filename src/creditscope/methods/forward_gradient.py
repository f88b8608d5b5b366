"""Forward gradients: directional derivatives along random directions at the states, without a backward pass."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from creditscope.batch import Batch, tensors_in
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.linearised import carries_directions, pieces_with_directions, pushed
from creditscope.methods.local import (
    LocalPass,
    LocalRule,
    Normalisation,
    check_normalisation,
    forward_in_pieces,
    local_pass,
)
from creditscope.methods.relaxation import held_statistics, recorded_statistics
from creditscope.methods.rule import EVERYTHING, Feedback, Moment, Scope
from creditscope.networks.staged import StagedNetwork


@method(
    "forward_gradient",
    summary="Forward gradients: credit is a random direction at the state, times the slope of the loss along it.",
    formula="a_l = mean over K draws of ⟨g_l, v⟩ v,  v ~ N(0, I),  ⟨g_l, v⟩ by forward-mode differentiation",
    paper="Baydin et al. (2022); at the states: Ren et al. (2023)",
    identities={
        "E a_l = g_l: z-test over 4,000 draws": "tests/methods/test_forward_gradient.py::test_it_is_unbiased",
        "E cos(a_l, g_l) = √(K/(K + d + 1)) within 5 %": (
            "tests/methods/test_forward_gradient.py::test_its_cosine_to_the_gradient_is_the_predicted_one"
        ),
    },
    fails="Its noise grows with the width d of the state: one draw at d = 256 leaves a cosine of about 0.06 to the "
    "gradient. A low Γ is then no fault of the implementation; compare it with the cosine of pure noise beside it.",
)
@dataclass(frozen=True)
class ForwardGradient(LocalRule):
    """An unbiased estimate of g_l from K directions per sample and state, with no backward pass above the state.

        E a_l = g_l,   E cos(a_l, g_l) ≈ √(K/(K + d + 1))

    Training draws from the run's generator. Credit on demand draws by the sample itself (a hash of its inputs), so
    that the same sample has the same credit in any batch. BatchNorm keeps the statistics of the forward pass.
    """

    normalisation: Normalisation = "none"
    draws: int = 1

    uses_weights_above = True

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        if self.draws < 1:
            raise InvalidInput(
                f"draws must be a whole number of at least 1, got {self.draws}.\n"
                "Without a direction there is no credit. Give K, the number of directions per sample."
            )

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """No feedback."""
        return Feedback()

    def noise_cosine(self, features: int) -> float:
        """√(K/(K + d + 1)): the cosine to the gradient that a correct estimate has on average."""
        return math.sqrt(self.draws / (self.draws + features + 1))

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """The estimate along directions that belong to the samples."""
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        with held_statistics(statistics):
            signals = self.signals(network, feedback, seen)
        return self.update(network, seen, signals, scope)

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The estimate along fresh directions."""
        drawn: list[Tensor] = []

        def draw(state: Tensor) -> Tensor:
            drawn.append(torch.randn((self.draws, *state.shape), generator=moment.generator).to(state))
            return drawn[-1]

        found = self._in_one_pass(network, batch, scope, draw)
        if found is not None:
            seen, moved = found
            return self.update(network, seen, _estimates(moved, seen.error, drawn), scope)
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        for state in seen.hiddens[len(drawn) :]:
            draw(state)
        with held_statistics(statistics):
            signals = estimate(network, seen, drawn)
        return self.update(network, seen, signals, scope)

    def _in_one_pass(
        self, network: StagedNetwork, batch: Batch, scope: Scope, draw: Callable[[Tensor], Tensor]
    ) -> tuple[LocalPass, Tensor] | None:
        """The forward pass with its directions, and what these become at the logits; None where it cannot be done."""
        if not carries_directions(network):
            return None
        _check_loss(network)
        try:
            with torch.enable_grad():
                pieces, moved = pieces_with_directions(network, batch.inputs, scope.learns, draw)
        except TypeError:
            return None
        return local_pass(network, batch, pieces), moved

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """The estimate along directions that belong to the samples."""
        return estimate(network, seen, _by_sample(seen.inputs, self.draws, seen.hiddens))


def estimate(network: StagedNetwork, seen: LocalPass, directions: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """mean over K of ⟨g_l, v⟩ v for the directions v (K, N, *h_l) of every state.

    One pass up: at every block the directions of the states below, carried so far, are joined by those of its output.
    """
    _check_loss(network)
    carried, hooked = directions[0], network.own is not network
    for index in range(network.depth):

        def stage(state: Tensor, block: int = index) -> Tensor:
            return network.merge(block, state, network.branch(block, state))

        carried = torch.cat([pushed(stage, seen.hiddens[index], carried, hooked=hooked), directions[index + 1]])
    return _estimates(pushed(network.readout, seen.hiddens[-1], carried, hooked=hooked), seen.error, directions)


def _estimates(moved: Tensor, error: Tensor, directions: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """⟨g_l, v⟩ v = ⟨e, ż⟩ v with e = ∂ℓ/∂logits and ż what v has become at the logits."""
    with torch.no_grad():
        slopes = (moved.flatten(2) * error.flatten(1)).sum(2)
        by_state = slopes.view(len(directions), -1, slopes.shape[-1])  # (L + 1, K, N)
        return tuple(
            (slope.view(*slope.shape, *[1] * (v.dim() - 2)) * v).mean(0)
            for slope, v in zip(by_state, directions, strict=True)
        )


def _check_loss(network: StagedNetwork) -> None:
    if network.loss_fn is not None:
        raise InvalidInput(
            "forward_gradient differentiates the cross-entropy of class labels, not another loss_fn.\n"
            "The slope would be that of a loss which is not trained. Leave loss_fn at its default."
        )


def _by_sample(inputs: Any, draws: int, hiddens: Sequence[Tensor]) -> list[Tensor]:
    """Directions (K, N, *h_l) of every state, drawn for each sample from a hash of its inputs."""
    shapes = [(draws, *state.shape[1:]) for state in hiddens]
    rows = []
    for sample in zip(*_sampled(inputs, len(hiddens[0])), strict=True):
        seed = int.from_bytes(hashlib.sha256(b"".join(part.tobytes() for part in sample)).digest()[:4], "big")
        generator = torch.Generator().manual_seed(seed)
        rows.append([torch.randn(shape, generator=generator) for shape in shapes])
    return [torch.stack(state, 1).to(h) for state, h in zip(zip(*rows, strict=True), hiddens, strict=True)]


def _sampled(inputs: Any, count: int) -> list[Any]:
    """Every tensor among the inputs that has a row for each of the samples, as an array of these rows."""
    sampled = [tensor.detach().float().cpu() for tensor in tensors_in(inputs) if len(tensor) == count]
    if not sampled:
        raise InvalidInput(
            f"None of the inputs is a tensor with one row for each of the {count} samples.\n"
            "forward_gradient draws the directions of a sample by its inputs, so that its credit is the same in any "
            "batch. Pass the samples along the first axis."
        )
    return [tensor.reshape(count, -1).numpy() for tensor in sampled]
