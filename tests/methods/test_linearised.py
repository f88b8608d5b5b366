"""Directions through listed layers are Jacobian products; other stages take PyTorch's forward mode, and both agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.methods.conftest import small
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.methods import forward_gradient
from creditscope.methods.forward_gradient import ForwardGradient
from creditscope.methods.linearised import LAYERS, Moving, along, carries_directions, pieces_with_directions, pushed
from creditscope.methods.rule import Feedback, Moment
from creditscope.methods.wrappers import Frozen


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


WEIGHT, SCALE, KERNEL = drawn(6, 5, seed=1), drawn(5, seed=2), drawn(4, 3, 3, 3, seed=3)
CALLS: dict[Any, tuple[Callable[[Any], Any], Tensor]] = {
    F.linear: (lambda x: F.linear(x, WEIGHT, drawn(6)), drawn(7, 5)),
    F.conv2d: (lambda x: F.conv2d(x, KERNEL, drawn(4), stride=2, padding=1), drawn(2, 3, 6, 6)),
    F.layer_norm: (lambda x: F.layer_norm(x, (5,), SCALE, drawn(5)), drawn(7, 5)),
    F.gelu: (F.gelu, drawn(7, 5)),
    F.relu: (F.relu, drawn(7, 5)),
    torch.relu: (torch.relu, drawn(7, 5)),
    torch.tanh: (torch.tanh, drawn(7, 5)),
    torch.sigmoid: (torch.sigmoid, drawn(7, 5)),
}


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_every_listed_layer_takes_directions_by_its_jacobian(layer: Any) -> None:
    call, at = CALLS[layer]
    directions = drawn(3, *at.shape, seed=9)
    assert isinstance(call(Moving(at, directions)), Moving)
    for found, v in zip(pushed(call, at, directions), directions, strict=True):
        torch.testing.assert_close(found, along(call, at, v), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    "stage",
    [
        lambda x: F.gelu(x, approximate="tanh") + 0.5 * torch.tanh(x),
        lambda x: x * x,
        lambda x: torch.exp(x).flatten(1),
        lambda x: F.layer_norm(x, (4, 5)) + x,
        lambda x: x + x.mean(-1, keepdim=True),
        lambda x: torch.ones_like(x) + x,
    ],
)
@pytest.mark.parametrize("hooked", [False, True])
def test_any_stage_agrees_with_forward_mode_listed_or_not(stage: Callable[[Any], Any], hooked: bool) -> None:
    at, directions = drawn(3, 4, 5), drawn(2, 3, 4, 5, seed=4)
    for found, v in zip(pushed(stage, at, directions, hooked=hooked), directions, strict=True):
        torch.testing.assert_close(found, along(stage, at, v), rtol=1e-11, atol=1e-13)


def test_an_error_of_the_stage_itself_is_not_swallowed() -> None:
    def broken(x: Tensor) -> Tensor:
        raise TypeError("its own")

    with pytest.raises(TypeError, match="its own"):
        pushed(broken, drawn(2, 3), drawn(1, 2, 3))


@pytest.mark.parametrize("name", ["resmlp", "mlp", "student_net"])
def test_the_pass_with_directions_is_the_pass_in_pieces_bit_for_bit(name: str, batch: Batch) -> None:
    network, directions = small(name), []

    def draw(state: Tensor) -> Tensor:
        directions.append(drawn(2, *state.shape, seed=len(directions)))
        return directions[-1]

    with torch.enable_grad():
        plain = network.in_pieces(batch.inputs, lambda index: index != 1)
        found, moved = pieces_with_directions(network, batch.inputs, lambda index: index != 1, draw)
    for one, other in zip((*plain.stages, *plain.branches), (*found.stages, *found.branches), strict=True):
        assert torch.equal(one, other)
        assert one.requires_grad == other.requires_grad
    assert torch.equal(plain.logits, found.logits)
    for layer, vs in enumerate(directions):
        state = plain.stages[layer].detach()

        def above(h: Tensor, start: int = layer) -> Tensor:
            for block in range(start, network.depth):
                h = network.merge(block, h, network.branch(block, h))
            return network.readout(h)

        for draw_index, v in enumerate(vs):
            wanted = along(above, state, v)
            torch.testing.assert_close(moved[2 * layer + draw_index], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", ["resmlp", "vit_mini", "small_cnn"])
def test_a_step_is_the_same_in_one_pass_and_in_two(
    name: str, frozen: bool, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, rule = small(name).train(), ForwardGradient(draws=2)
    wrapped = Frozen(rule) if frozen else rule
    steps = []
    for one_pass in (True, False):
        if not one_pass:
            monkeypatch.setattr(forward_gradient, "carries_directions", lambda network: False)
        generator = torch.Generator().manual_seed(1)
        steps.append(wrapped.learn(network, Feedback(), batch, Moment(0.0, generator)))
        steps.append(generator.get_state())
    (one, after, two, after_two) = steps
    assert torch.equal(after, after_two)
    for a, b in zip(one.signals, two.signals, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)
    assert one.gradients.keys() == two.gradients.keys()
    for key, gradient in two.gradients.items():
        torch.testing.assert_close(one.gradients[key], gradient, rtol=1e-8, atol=1e-12)


def test_what_a_second_pass_would_change_is_never_tried_twice() -> None:
    """BatchNorm would count its batch twice, dropout draw another mask."""
    assert carries_directions(small("resmlp"))
    assert not carries_directions(small("small_cnn"))
    dropping = small("resmlp")
    dropping.add_module("extra", nn.Dropout())
    assert not carries_directions(dropping)
