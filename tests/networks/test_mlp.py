"""The plain MLP: its definition, its options, and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.errors import InvalidInput
from creditscope.networks.build import build

BY_HAND = {
    "relu": lambda z: z * (z > 0),
    "sigmoid": lambda z: 1 / (1 + torch.exp(-z)),
    "tanh": lambda z: (torch.exp(z) - torch.exp(-z)) / (torch.exp(z) + torch.exp(-z)),
    "gelu": lambda z: z * 0.5 * (1 + torch.erf(z / math.sqrt(2))),
}


def inputs(features: int = 12, count: int = 5) -> Tensor:
    return torch.randn(count, features, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("activation", list(BY_HAND))
@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("normalisation", ["none", "layer"])
def test_the_forward_pass_is_its_definition(activation: str, residual: bool, normalisation: str) -> None:
    options = {"activation": activation, "residual": residual, "normalisation": normalisation}
    net = build("mlp", 12, 3, 0, widths=(8,), depth=2, **options).double()
    p = net.state_dict()

    def hidden(layer: str, h: Tensor) -> Tensor:
        z = h @ p[f"{layer}.w.weight"].T + p[f"{layer}.w.bias"]
        if normalisation == "layer":
            centred = z - z.mean(dim=1, keepdim=True)
            z = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
        return BY_HAND[activation](z)

    states = [hidden("embed", inputs())]
    for block in ("blocks.0", "blocks.1"):
        states.append(hidden(block, states[-1]) + (states[-1] if residual else 0))
    logits, hiddens = net(inputs(), return_hidden=True)
    torch.testing.assert_close(hiddens, states)
    torch.testing.assert_close(logits, states[-1] @ p["head.weight"].T + p["head.bias"])


def test_batch_normalisation_comes_before_the_activation() -> None:
    net = build("mlp", 12, 3, 0, widths=(8,), depth=0, normalisation="batch").double()
    p, x = net.state_dict(), inputs()
    z = x @ p["embed.w.weight"].T + p["embed.w.bias"]
    standard = (z - z.mean(0)) / (z.var(0, correction=0) + 1e-5).sqrt()
    torch.testing.assert_close(net.train().states(x)[0], F.relu(standard))


def test_normal_weights_and_biases_have_the_spread_of_fan_in_plus_fan_out() -> None:
    net = build("mlp", 784, 10, 0, widths=(500,), depth=0, initial="normal")
    for layer, fans in ((net.embed.w, 784 + 500), (net.head, 500 + 10)):
        assert layer.weight.std().item() == pytest.approx(fans**-0.5, rel=0.05)
    assert net.embed.w.bias.std().item() == pytest.approx((784 + 500) ** -0.5, rel=0.2)
    with pytest.raises(InvalidInput, match="initial is 'xavier'"):
        build("mlp", 12, 3, 0, initial="xavier")


def test_the_last_width_serves_all_states_after_it() -> None:
    widths = [state.shape[1] for state in build("mlp", 12, 3, 0, widths=(9, 7), depth=3).states(inputs().float())]
    assert widths == [9, 7, 7, 7]


def test_one_hidden_layer_is_the_embedding() -> None:
    """784-500-10, as published: depth 0."""
    net = build("mlp", (1, 28, 28), 10, 0, widths=(500,), depth=0)
    shapes = {name: tuple(p.shape) for name, p in net.named_parameters()}
    assert shapes == {
        "embed.w.weight": (500, 784),
        "embed.w.bias": (500,),
        "head.weight": (10, 500),
        "head.bias": (10,),
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": (8, 7, 6), "depth": 1}, "names 3 hidden layers, but depth = 1 makes 2"),
        ({"widths": ()}, "names 0 hidden layers"),
        ({"widths": (8, 0)}, "Width 1 of widths is 0"),
        ({"widths": (8, 7), "residual": True}, "A state is added"),
        ({"activation": "swish"}, "relu, sigmoid, tanh or gelu"),
        ({"normalisation": "group"}, "none, layer or batch"),
        ({"depth": -1}, "at least 0"),
    ],
)
def test_what_cannot_be_built_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        build("mlp", 12, 3, 0, **options)  # type: ignore[arg-type]
