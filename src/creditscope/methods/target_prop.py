"""Difference target propagation: learnt inverses of the stages carry targets down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import vjp, vmap

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.bridge import WIDTH, Affine, AuxiliaryLoss, AuxiliaryRule, learner, module
from creditscope.methods.local import LocalPass, Normalisation, check_normalisation, forward_in_pieces
from creditscope.methods.rule import EVERYTHING, Feedback, Scope, example_states
from creditscope.networks.staged import StagedNetwork, initialise
from creditscope.randomness import forked_rng
from creditscope.verdict import Missing, Reason

WIDEST = 512  # features of a state whose Jacobian is inverted
TOGETHER = 32  # samples whose Jacobians are held at once
DIGITS = 1e-2  # relative error of a solution above which it is undefined


class Inverse(nn.Module):
    """G_l: one hidden layer of 256 with SiLU, from the width of h_{l+1} to that of h_l."""

    def __init__(self, above: int, below: int, generator: torch.Generator) -> None:
        super().__init__()
        with forked_rng():  # nn.Linear draws from the global generator, which is not ours
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
    networks=("mlp", "resmlp", "student_net", "mupc_mlp"),
    identities={
        "with the exact inverse a_l → J⁻¹ g_L, with an error of order 1 in η": (
            "tests/methods/test_target_prop.py::test_the_error_of_an_exact_inverse_falls_with_its_step_at_order_one"
        ),
        "where J is orthogonal, credit and updates are those of backprop": (
            "tests/methods/test_target_prop.py::test_where_the_jacobian_is_orthogonal_credit_and_updates_are_those_of_backprop"
        ),
    },
    fails="Inverses that lag behind the blocks bend the targets. Where J is not orthogonal a low Γ to BP is right, "
    "so that Γ alone neither confirms nor refutes the rule. States must be flat.",
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

    def own_reference(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING
    ) -> Credit | Missing:
        """J⁻¹ g_L, J = ∂h_L/∂h_l, sample by sample; where widths differ or are large it is not computed."""
        seen = forward_in_pieces(network, batch, Scope(trained=frozenset()))
        widths = [state.shape[1] for state in seen.hiddens]
        if len(set(widths)) > 1:
            said = ", ".join(map(str, widths))
            return Missing(Reason.NOT_APPLICABLE, f"the states have {said} features, so that J has no inverse")
        if widths[0] > WIDEST:
            return Missing(
                Reason.NOT_POSSIBLE,
                f"J has {widths[0]:,} rows; it is inverted sample by sample up to {WIDEST}",
            )
        signals = gauss_newton(network, seen.hiddens, seen.deepest)
        if bool(signals[0].isnan().all()):
            return Missing(Reason.NOT_POSSIBLE, "J is singular to rounding for every image, as where units are silent")
        return Credit(signals, {}, seen.loss)

    def exact_layers(self, depth: int) -> frozenset[int]:
        """The deepest: a_L = g_L."""
        return frozenset({depth})


@torch.no_grad()
def gauss_newton(network: StagedNetwork, hiddens: Sequence[Tensor], deepest: Tensor) -> tuple[Tensor, ...]:
    """x_L = g_L, then D_l x_l = x_{l+1} with D_l = ∂h_{l+1}/∂h_l of every sample: x_l = J⁻¹ g_L.

    In float64 but for D_l, which has the network's precision. NaN for a sample where rounding decides:
    eps·‖D_l‖₁·‖D_l⁻¹‖₁ > 0.01.
    """
    found = [deepest.double()]
    for layer in reversed(range(network.depth)):
        few = range(0, len(deepest), TOGETHER)
        pieces = [(hiddens[layer][at : at + TOGETHER], found[0][at : at + TOGETHER]) for at in few]
        found.insert(0, torch.cat([_solved(network, layer, state, above) for state, above in pieces]))
    return tuple(found)


def _solved(network: StagedNetwork, layer: int, state: Tensor, above: Tensor) -> Tensor:
    """D_l⁻¹ x for a few samples."""
    pulled: Any = vjp(lambda h: network.merge(layer, h, network.branch(layer, h)), state)[1]
    basis = torch.eye(state.shape[1]).to(state)[:, None].expand(-1, *state.shape)
    jacobian = vmap(pulled)(basis)[0].transpose(0, 1).double()  # rows (outputs, N, inputs) -> (N, outputs, inputs)
    inverse, failed = torch.linalg.inv_ex(jacobian)
    condition = torch.linalg.matrix_norm(jacobian, 1) * torch.linalg.matrix_norm(inverse, 1)
    lost = (failed != 0) | ~(condition * torch.finfo(state.dtype).eps <= DIGITS)
    solved: Tensor = (inverse @ above[..., None])[..., 0]
    return solved.masked_fill(lost[:, None], torch.nan)
