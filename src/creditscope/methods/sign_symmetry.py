"""Sign-symmetry: credit goes back through the signs of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from creditscope.arguments import check_choice
from creditscope.batch import Batch
from creditscope.credit import Credit
from creditscope.methods import method
from creditscope.methods.inside_weights import InsideWeights, check_names, weights_of, weights_on_the_way_back
from creditscope.methods.rule import EVERYTHING, Feedback, Moment, Scope, StandsFor
from creditscope.networks.staged import StagedNetwork

Magnitudes = Literal["uniform", "fixed", "redrawn"]


@method(
    "sign_symmetry",
    summary="Sign-symmetry: inside every Linear and Conv2d credit goes back through the signs of the weights.",
    formula="y = x Wᵀ;  ∂ℓ/∂x := (∂ℓ/∂y) (M ∘ sign(W)),  ∂ℓ/∂W = (∂ℓ/∂y)ᵀ x",
    feedback="M = c |N(0, 1)|, c the standard deviation of W at the start: drawn once (fixed) or before every step "
    "(redrawn); or M = c (uniform)",
    paper="Liao, Leibo and Poggio (2016)",
    identities={
        "with M = |W| it is backprop": (
            "tests/methods/test_sign_symmetry.py::test_with_the_magnitudes_of_the_weights_it_is_backprop"
        ),
        "for the same M its three forms give the gradients of BioTorch": (
            "tests/thirdparty/test_biotorch.py::test_sign_symmetry_gives_biotorchs_gradients"
        ),
    },
    fails="Magnitudes other than |W| change the scale of credit from layer to layer. The paper relies on batch "
    "normalisation; without it the scale drifts with depth. Signs are read from the weights above, so it is not "
    "local.",
)
@dataclass(frozen=True)
class SignSymmetry(InsideWeights):
    """Credit goes back through M ∘ sign(W): signs of the forward weights, other magnitudes.

    With M = |W| it is backprop. Weights that read the data themselves need no M. `redrawn` magnitudes belong to a step;
    an audit uses those of the last one. Fresh magnitudes are no null: the signs carry the alignment.
    """

    magnitudes: Magnitudes = "fixed"

    uses_weights_above = True
    redraws = False

    @property
    def stands_for(self) -> StandsFor | None:  # type: ignore[override]
        """M stands for |W|, where every weight has its own."""
        return None if self.magnitudes == "uniform" else "magnitude"

    @property
    def stackable(self) -> bool:
        """Unless every step draws its own magnitudes."""
        return self.magnitudes != "redrawn"

    def feedback_matrices(self, feedback: Feedback) -> Mapping[str, Tensor]:
        """M, without its scale."""
        return {f"M.{name}": magnitudes for name, magnitudes in _of_kind("M", feedback).items()}

    def __post_init__(self) -> None:
        because = "They decide which matrix carries the credit."
        check_choice("magnitudes", self.magnitudes, get_args(Magnitudes), because)

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """M of every weight on the way back, and its scale c where M will be drawn again."""
        tensors: dict[str, Tensor] = {}
        for name, weight in weights_on_the_way_back(network, example).items():
            scale = weight.detach().float().std().cpu()
            if self.magnitudes == "redrawn":
                tensors[f"c.{name}"] = scale
            uniform = self.magnitudes == "uniform"
            tensors[f"M.{name}"] = scale if uniform else _draw(torch.empty(weight.shape), scale, generator)
        return Feedback(tensors)

    def backward_weights(self, network: StagedNetwork, feedback: Feedback) -> Mapping[str, Tensor]:
        """M ∘ sign(W)."""
        weights, magnitudes = weights_of(network), _of_kind("M", feedback)
        check_names({name: weights[name] for name in magnitudes if name in weights}, magnitudes, network.title)
        return {name: weights[name].detach().sign().mul_(m.to(weights[name])) for name, m in magnitudes.items()}

    def learn(
        self, network: StagedNetwork, feedback: Feedback, batch: Batch, moment: Moment, scope: Scope = EVERYTHING
    ) -> Credit:
        """The credit; magnitudes that are redrawn are drawn before every step."""
        for name, scale in _of_kind("c", feedback).items():
            _draw(feedback.tensors[f"M.{name}"], scale, moment.generator)
        return self.credit(network, feedback, batch, scope)


def _draw(magnitudes: Tensor, scale: Tensor, generator: torch.Generator) -> Tensor:
    """Fill with c |N(0, 1)|, drawn on the CPU in the default precision wherever the magnitudes are."""
    if magnitudes.is_cpu and magnitudes.dtype is torch.get_default_dtype():  # scaled on the way: one pass less
        return magnitudes.normal_(0.0, scale.item(), generator=generator).abs_()
    drawn = torch.empty(magnitudes.shape).normal_(generator=generator).abs_()
    return magnitudes.copy_(drawn).mul_(scale)  # the number of a scale on another device would have to be waited for


def _of_kind(kind: str, feedback: Feedback) -> dict[str, Tensor]:
    """M or c, by the name of the weight."""
    prefix = f"{kind}."
    return {name.removeprefix(prefix): t for name, t in feedback.tensors.items() if name.startswith(prefix)}
