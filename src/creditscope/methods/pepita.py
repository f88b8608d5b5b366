"""PEPITA: the error is projected onto the input, and the change of the activity is the teaching signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.errors import InvalidInput
from creditscope.methods import method
from creditscope.methods.forward_forward import as_mlp
from creditscope.methods.linearised import along
from creditscope.methods.local import forward_in_pieces
from creditscope.methods.rule import EVERYTHING, CreditRule, Feedback, Scope
from creditscope.networks.staged import StagedNetwork

PROJECTION = "F"


@method(
    "pepita",
    summary="PEPITA: a second forward pass on the input less the projected error; activities are compared.",
    formula="ΔW_0 = (h_0 - h_0ᵉ)(x - F e)ᵀ,  ΔW_l = (h_l - h_lᵉ)(h_{l-1}ᵉ)ᵀ,  ΔW_out = e (h_Lᵉ)ᵀ,  "
    "hᵉ the states of x - F e",
    feedback="F (inputs x classes) ~ strength·U(-√(6/inputs), √(6/inputs))",
    paper="Dellaferrera and Kreiman (2022); its limit: Srinivasan et al. (2023)",
    reference="adaptive feedback, B = W_0 F",
    networks=("mlp",),
    identities={
        "the update over ‖F‖ tends to adaptive feedback at order 1 as ‖F‖ → 0": (
            "tests/methods/test_pepita.py::test_the_update_over_the_size_of_the_projection_tends_to_adaptive_feedback_at_order_one"
        ),
        "at the first layer the limit is feedback alignment with B = W_0 F": (
            "tests/methods/test_pepita.py::test_at_the_first_layer_the_limit_is_feedback_alignment_with_w_times_f"
        ),
    },
    fails="Every layer receives the error through the weights below it, on top of a difference of two passes that "
    "shrinks with ‖F‖. Normalisation and residual additions have no update and are refused.",
)
@dataclass(frozen=True)
class Pepita(CreditRule):
    """Two forward passes: on x, and on x - F e; the updates are products of activities, mean over the batch.

    As ‖F‖ → 0 the updates of the hidden layers, divided by ‖F‖, tend to those of feedback that the weights below
    adapt: J_l F e in place of the backpropagated error, J_l = ∂h_l/∂x. The law of F is that of the authors' code
    (github.com/GiorgiaD/PEPITA, functions.py and the tutorial): He's uniform law for the inputs, times 0.05. That code
    adds F e to the input, which is the same with -F; its tutorial takes e of the second pass at the last layer.
    """

    strength: float = 0.05

    at_states = False
    exact_readout = False
    drawing = frozenset({"strength"})

    def __post_init__(self) -> None:
        if not 0 < self.strength < float("inf"):
            raise InvalidInput(
                f"strength must be a positive number, got {self.strength!r}.\n"
                "The second pass would be the first one, and no hidden layer would learn. The default is 0.05."
            )

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """F; refuses layers for which the rule defines no update."""
        plain = as_mlp(network, self.name)
        if plain.residual or any(isinstance(m, torch.nn.LayerNorm | torch.nn.BatchNorm1d) for m in plain.modules()):
            raise InvalidInput(
                "pepita was given an 'mlp' with a normalisation or residual addition.\n"
                "It defines no update for their parameters. Use normalisation = none and residual = False."
            )
        features, classes = plain.embed.w.in_features, plain.head.out_features
        bound = self.strength * (6 / features) ** 0.5
        return Feedback({PROJECTION: (2 * torch.rand(features, classes, generator=generator) - 1) * bound})

    def credit(self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING) -> Credit:
        """Both passes and the products of their activities."""
        seen = forward_in_pieces(network, batch, scope)
        with torch.no_grad():
            moved = batch.inputs.flatten(1) - seen.error @ feedback.tensors[PROJECTION].to(seen.error).T
            second = network.states(moved)
            sides = zip(seen.hiddens, second, [moved, *second[:-1]], strict=True)
            layers = [(before - after, below) for before, after, below in sides]
            gradients = _updates(network, [*layers, (seen.error, second[-1])], scope)
        for name, slope in _penalty(network, seen.branches, scope, seen.count).items():
            gradients[name] = gradients[name] + slope
        return Credit((), gradients, seen.loss)

    def own_reference(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, scope: Scope = EVERYTHING
    ) -> Credit:
        """(J_l F e)(h_{l-1})ᵀ by forward mode, and e (h_L)ᵀ: the first order of the updates in F."""
        seen, inputs = forward_in_pieces(network, batch, scope), batch.inputs.flatten(1)
        with torch.no_grad():
            pushed = seen.error @ feedback.tensors[PROJECTION].to(seen.error).T
            carried = along(lambda x: tuple(network.states(x)), inputs, pushed)
            below = [inputs, *seen.hiddens[:-1]]
            layers = list(zip(carried, below, strict=True))
            gradients = _updates(network, [*layers, (seen.error, seen.hiddens[-1])], scope)
        return Credit((), gradients, seen.loss)


def _updates(network: StagedNetwork, sides: Sequence[tuple[Tensor, Tensor]], scope: Scope) -> dict[str, Tensor]:
    """The updates of the layers that learn, from the two factors of every layer."""
    names = ["embed.w", *(f"blocks.{index}.w" for index in range(network.depth)), "head"]
    pairs = zip(names, sides, strict=True)
    every = {key: g for name, (change, below) in pairs for key, g in _products(name, change, below).items()}
    learning = scope.parameters(network)
    return {name: gradient for name, gradient in every.items() if name in learning}


def _products(name: str, change: Tensor, below: Tensor) -> dict[str, Tensor]:
    """The updates of a layer's weight and bias, mean over the batch."""
    return {f"{name}.weight": change.T @ below / len(change), f"{name}.bias": change.mean(0)}


def _penalty(network: StagedNetwork, branches: Sequence[Tensor], scope: Scope, count: int) -> dict[str, Tensor]:
    """Gradients of λ‖f_l‖², mean over the batch, for the blocks that learn."""
    pieces = [branch for branch in branches if branch.requires_grad]
    if not scope.penalty or not pieces:
        return {}
    inner = {name: p for name, p in scope.parameters(network).items() if name.startswith("blocks.")}
    with torch.enable_grad():
        total = scope.penalty / count * torch.stack([branch.square().sum() for branch in pieces]).sum()
        return dict(zip(inner, torch.autograd.grad(total, list(inner.values())), strict=True))
