"""Difference target propagation: learnt inverses of the stages carry targets down."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.bridge import WIDTH, Affine, AuxiliaryLoss, AuxiliaryRule, learner, module
from creditscope.methods.local import LocalPass, Normalisation, check_normalisation
from creditscope.methods.rule import Feedback, example_states
from creditscope.networks.staged import StagedNetwork, initialise


class Inverse(nn.Module):
    """G_l: one hidden layer of 256 with SiLU, from the width of h_{l+1} to that of h_l."""

    def __init__(self, above: int, below: int, generator: torch.Generator) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):  # nn.Linear draws from the global generator, which is not ours
            self.hidden, self.out = Affine(above, WIDTH), Affine(WIDTH, below)
        initialise(self, generator)

    def forward(self, state: Tensor) -> Tensor:
        """(N, above) -> (N, below)."""
        out: Tensor = self.out(F.silu(self.hidden(state)))
        return out


@method(
    "target_prop",
    summary="Difference target propagation: every block has a learnt inverse, through which targets are carried down.",
    formula="a_l = (h_l - t_l)/η,  t_L = h_L - η g_L,  t_l = h_l + G_l(t_{l+1}) - G_l(h_{l+1}),  "
    "G_l trained on ‖G_l(F_l(h_l + σξ)) - (h_l + σξ)‖²",
    paper="Lee, Zhang, Fischer and Bengio (2015); what its targets are: Meulemans et al. (2020)",
    reference="the Gauss-Newton target J⁻¹ g_L",
    networks=("mlp", "resmlp", "student_net"),
)
@dataclass(frozen=True)
class TargetPropagation(AuxiliaryRule):
    """Targets are carried down by inverses G_l of the blocks; credit is the way from a target to its state.

    F_l(h) is the state that block l makes of h; ξ ~ N(0, I). All G_l learn in every step, by Adam at 1e-3, before
    credit is taken. With exact inverses a_l → J⁻¹ g_L as η → 0, J = ∂h_L/∂h_l: a Gauss-Newton target, which is the
    gradient Jᵀ g_L only where J is orthogonal. A low Γ can therefore be right. The residual is the median over layers
    and samples of ‖G_l(F_l(x)) - x‖/‖x‖ at x = h_l + σξ.
    """

    normalisation: Normalisation = "none"
    eta: float = 0.1
    sigma: float = 0.1

    noted = ("inverse_loss", "inverse_residual")

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        for name in ("eta", "sigma"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInput(
                    f"{name} must be a positive number, got {getattr(self, name)!r}.\n"
                    "Without a step there is no target, without noise no inverse around a state. "
                    f"The default is {getattr(type(self), name):g}."
                )

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """G_0..G_{L-1} and their optimiser."""
        states, _ = example_states(network, example)
        if any(state.dim() != 2 for state in states):
            shapes = ", ".join(str(tuple(state.shape[1:])) for state in states)
            raise InvalidInput(
                f"The states of {network.title} have the shapes {shapes}, but target_prop needs flat ones.\n"
                "An inverse with one hidden layer would have to undo a convolution or attention over all positions. "
                f"Use {' or '.join(map(repr, self.networks or ()))}, or another method."
            )
        widths = [state.shape[1] for state in states]
        inverses = {
            f"G{layer}": Inverse(above, below, generator) for layer, (below, above) in enumerate(pairwise(widths))
        }
        networks = nn.ModuleDict(inverses)
        return Feedback({}, networks, learner(networks))

    def auxiliary_loss(
        self, network: StagedNetwork, feedback: Feedback, seen: LocalPass, generator: torch.Generator
    ) -> AuxiliaryLoss:
        """Σ_l mean‖G_l(F_l(x)) - x‖², x = h_l + σξ; every inverse learns from its own term alone."""
        missed, sizes = [], []
        for layer in range(network.depth):
            state = seen.hiddens[layer]
            noisy = state + self.sigma * torch.randn(state.shape, generator=generator).to(state)
            with torch.no_grad():
                above = network.merge(layer, noisy, network.branch(layer, noisy))
            with torch.enable_grad():
                missed.append((module(feedback, f"G{layer}")(above) - noisy).square().sum(1))
            sizes.append(noisy.square().sum(1))
        if not missed:  # no block, nothing to invert
            return AuxiliaryLoss(seen.loss.new_zeros(()), seen.loss.new_zeros(()))
        loss = torch.stack(missed).mean(1).sum()
        return AuxiliaryLoss(loss, (torch.stack(missed).detach() / torch.stack(sizes)).sqrt().median())

    @torch.no_grad()
    def signals(self, network: StagedNetwork, feedback: Feedback, seen: LocalPass) -> tuple[Tensor, ...]:
        """a_L = g_L, then a_l = (G_l(h_{l+1}) - G_l(t_{l+1}))/η: (h_l - t_l)/η with less rounding."""
        signals = [seen.deepest]
        for layer in reversed(range(network.depth)):
            inverse, state = module(feedback, f"G{layer}"), seen.hiddens[layer + 1]
            signals.insert(0, (inverse(state) - inverse(state - self.eta * signals[0])) / self.eta)
        return tuple(signals)

    def exact_layers(self, depth: int) -> frozenset[int]:
        """The deepest: a_L = g_L."""
        return frozenset({depth})
