"""Forward gradients: directional derivatives along random directions at the states, without a backward pass."""

from __future__ import annotations

import hashlib
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import jvp, vmap

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.local import LocalPass, LocalRule, Normalisation, check_normalisation, forward_in_pieces
from creditscope.methods.relaxation import held_statistics, recorded_statistics
from creditscope.methods.rule import EVERYTHING, Feedback, Moment, Scope
from creditscope.networks.staged import StagedNetwork

with warnings.catch_warnings():  # the first forward-mode pass of a process loads rules that PyTorch scripts, and warns
    warnings.simplefilter("ignore", DeprecationWarning)
    import torch._decomp.decompositions_for_jvp


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
        with recorded_statistics(network) as statistics:
            seen = forward_in_pieces(network, batch, scope)
        drawn = [torch.randn((self.draws, *h.shape), generator=moment.generator).to(h) for h in seen.hiddens]
        with held_statistics(statistics):
            signals = estimate(network, seen, drawn)
        return self.update(network, seen, signals, scope)

    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """The estimate along directions that belong to the samples."""
        return estimate(network, seen, _by_sample(seen.inputs, self.draws, seen.hiddens))


def estimate(network: StagedNetwork, seen: LocalPass, directions: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """mean over K of ⟨g_l, v⟩ v for the directions v (K, N, *h_l) of every state.

    One pass up: at every block the directions of the states below, carried so far, are joined by those of its output.
    """
    if network.loss_fn is not None:
        raise InvalidInput(
            "forward_gradient differentiates the cross-entropy of class labels, not another loss_fn.\n"
            "The slope would be that of a loss which is not trained. Leave loss_fn at its default."
        )

    def stage(index: int, state: Tensor) -> Tensor:
        return network.merge(index, state, network.branch(index, state))

    def loss(state: Tensor) -> Tensor:
        return F.cross_entropy(network.readout(state), seen.labels, reduction="none")

    with torch.no_grad():
        carried = directions[0]
        for index in range(network.depth):
            at = seen.hiddens[index]
            carried = vmap(lambda v, i=index, h=at: jvp(lambda s: stage(i, s), (h,), (v,))[1])(carried)
            carried = torch.cat([carried, directions[index + 1]])
        slopes = vmap(lambda v: jvp(loss, (seen.hiddens[-1],), (v,))[1])(carried)
        by_state = slopes.view(len(directions), -1, slopes.shape[-1])  # (L + 1, K, N)
        return tuple(
            (slope.view(*slope.shape, *[1] * (v.dim() - 2)) * v).mean(0)
            for slope, v in zip(by_state, directions, strict=True)
        )


def _by_sample(inputs: Tensor, draws: int, hiddens: Sequence[Tensor]) -> list[Tensor]:
    """Directions (K, N, *h_l) of every state, drawn for each sample from a hash of its inputs."""
    shapes = [(draws, *state.shape[1:]) for state in hiddens]
    rows = []
    for sample in inputs.detach().float().cpu().flatten(1).numpy():
        seed = int.from_bytes(hashlib.sha256(sample.tobytes()).digest()[:4], "big")
        generator = torch.Generator().manual_seed(seed)
        rows.append([torch.randn(shape, generator=generator) for shape in shapes])
    return [torch.stack(state, 1).to(h) for state, h in zip(zip(*rows, strict=True), hiddens, strict=True)]
