"""A plain multilayer perceptron: every state is one hidden layer, after its activation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from creditscope.errors import InvalidInput
from creditscope.networks import network
from creditscope.networks.options import depth_of, features, whole
from creditscope.networks.staged import StagedNetwork, initialise

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gelu": F.gelu,
}
NORMALISATIONS = {"none": nn.Identity, "layer": nn.LayerNorm, "batch": nn.BatchNorm1d}


def initialise_normal(module: nn.Module, generator: torch.Generator) -> None:
    """Draw weights and biases of every Linear from N(0, 1/(fan_in + fan_out)), in the order of `module.modules()`."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            std = (layer.in_features + layer.out_features) ** -0.5
            for tensor in layer.parameters():
                nn.init.normal_(tensor, 0.0, std, generator=generator)


INITIAL = {"uniform": initialise, "normal": initialise_normal}


class HiddenLayer(nn.Module):
    """f(h) = activation(norm(w(h)))."""

    def __init__(self, below: int, above: int, activation: str, normalisation: str) -> None:
        super().__init__()
        self.w = nn.Linear(below, above)
        self.norm = NORMALISATIONS[normalisation](above)
        self.activation = activation

    def forward(self, state: Tensor) -> Tensor:
        """(N, below) -> (N, above)."""
        return ACTIVATIONS[self.activation](self.norm(self.w(state)))


@network("mlp", summary="Plain MLP: hidden layer | L hidden layers | Linear; a hidden layer is Linear, activation.")
class MLP(StagedNetwork):
    """hidden layer | L hidden layers | Linear.

    The first hidden layer is the embedding, so that h_0 .. h_L are the outputs of the L + 1 hidden layers. 784-500-10
    is widths=(500,) with depth=0.

    inputs         features of one flattened sample, or its shape
    widths         of h_0, h_1, ...; the last one serves all states after it
    depth          number of blocks L, the hidden layers after the first
    activation     relu, sigmoid, tanh or gelu
    normalisation  none, layer (LayerNorm) or batch (BatchNorm), between Linear and activation
    residual       True: h_{l+1} = h_l + f_l(h_l), for states of one width
    initial        uniform (PyTorch's default) or normal: weights and biases ~ N(0, 1/(fan_in + fan_out))
    """

    def __init__(
        self,
        inputs: int | tuple[int, ...] = 784,
        classes: int = 10,
        *,
        widths: tuple[int, ...] = (256,),
        depth: int = 4,
        activation: str = "relu",
        normalisation: str = "none",
        residual: bool = False,
        initial: str = "uniform",
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.residual = residual
        every = _widths(widths, depth_of(depth))
        _one_of("activation", activation, tuple(ACTIVATIONS))
        _one_of("normalisation", normalisation, tuple(NORMALISATIONS))
        _one_of("initial", initial, tuple(INITIAL))
        if residual and len(set(every)) > 1:
            raise InvalidInput(
                f"The states would have the widths {', '.join(map(str, every))}, but residual is True.\n"
                "A state is added to its branch only where both have one width. Give one width, or residual=False."
            )
        self.embed = HiddenLayer(features(inputs), every[0], activation, normalisation)
        self.blocks = nn.ModuleList(HiddenLayer(*pair, activation, normalisation) for pair in pairwise(every))
        self.head = nn.Linear(every[-1], classes)
        INITIAL[initial](self, generator)

    def embedding(self, inputs: Tensor) -> Tensor:
        """The first hidden layer, on the flattened sample."""
        out: Tensor = self.embed(inputs.flatten(1))
        return out

    def readout(self, state: Tensor) -> Tensor:
        """The head alone."""
        out: Tensor = self.head(state)
        return out


def _widths(given: tuple[int, ...], depth: int) -> list[int]:
    """The widths of h_0..h_L."""
    widths = [whole(f"Width {place} of widths", width, 1) for place, width in enumerate(given)]
    if not 1 <= len(widths) <= depth + 1:
        raise InvalidInput(
            f"widths names {len(widths)} hidden layers, but depth = {depth} makes {depth + 1} of them.\n"
            "The record would name layers that do not exist, or none. "
            f"Give 1 to {depth + 1} widths, or raise depth: the first hidden layer is not counted in it."
        )
    return widths + widths[-1:] * (depth + 1 - len(widths))


def _one_of(option: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise InvalidInput(
            f"{option} is {value!r}.\n"
            "No such network is defined, so the record would describe nothing. "
            f"Give {', '.join(known[:-1])} or {known[-1]}."
        )
