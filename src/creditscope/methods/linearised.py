"""Forward-mode differentiation along many directions at once: a state that takes its directions through the layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import jvp, vmap

from creditscope.networks.staged import Pieces, StagedNetwork

Push = Callable[[Tensor], Tensor]  # directions at the input of a layer (k, N, ...) -> those at its output


class Unlisted(TypeError):
    """A stage did something to its state that is no listed layer, sum or multiple."""


def pushed(stage: Callable[[Any], Any], at: Tensor, directions: Tensor, *, hooked: bool = False) -> Tensor:
    """∂stage(at)/∂at · v for directions v (k, N, ...) at a state (N, ...).

    A stage of listed layers takes one pass for all directions. Any other one goes through `torch.func.jvp`, which
    multiplies, in every product, by a zero direction of the weight as well, and takes LayerNorm apart.

    hooked   the stage runs a model through hooks, which `torch.func` cannot enter: one dual pass for each direction
    """
    with torch.no_grad():
        if hooked:
            return torch.stack([_dual(stage, at, direction) for direction in directions])
        try:
            moved = stage(Moving(at, directions))
        except TypeError:  # also of Python itself, for an operation that `Moving` lacks
            moved = None
        if isinstance(moved, Moving):
            return moved.directions
        found: Tensor = vmap(lambda v: along(stage, at, v))(directions)
        return found


def _dual(stage: Callable[[Any], Any], at: Tensor, direction: Tensor) -> Tensor:
    """∂stage(at)/∂at · v as the tangent of one forward pass on a dual tensor."""
    load_forward_mode()
    with forward_ad.dual_level():
        dual: Any = forward_ad.make_dual(at, direction)  # type: ignore[no-untyped-call]
        value, tangent = forward_ad.unpack_dual(stage(dual))  # type: ignore[no-untyped-call]
    return torch.zeros_like(value) if tangent is None else tangent


def along(function: Callable[[Tensor], Any], at: Tensor, direction: Tensor) -> Any:
    """∂function(at)/∂at · v by `torch.func.jvp`."""
    load_forward_mode()
    return jvp(function, (at,), (direction,))[1]


@cache
def load_forward_mode() -> None:
    """Load PyTorch's rules of forward mode, once and only where they are needed: it takes 0.3 s, and PyTorch warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch._decomp.decompositions_for_jvp  # noqa: F401


def pieces_with_directions(
    network: StagedNetwork, inputs: Tensor, learns: Callable[[int], bool], draw: Callable[[Tensor], Tensor]
) -> tuple[Pieces, Tensor]:
    """`network.in_pieces`, and what directions at its states become at the logits, (L + 1)·K of them, in the same pass.

    draw   the directions (K, N, ...) of a state
    Raises TypeError if a stage is not made of listed layers.
    """
    stages, branches = [network.embedding(inputs)], []
    carried = draw(stages[0].detach())
    for index in range(network.depth):
        with torch.set_grad_enabled(learns(index)):
            state: Any = Moving(stages[-1].detach(), carried)
            branch = moving(network.branch(index, state))
            merged = moving(network.merge(index, state, branch))  # type: ignore[arg-type]
        branches.append(branch.state)
        stages.append(merged.state)
        carried = torch.cat([merged.directions, draw(merged.state.detach())])
    deepest = stages[-1].detach().requires_grad_()
    logits = moving(network.readout(Moving(deepest, carried)))  # type: ignore[arg-type]
    return Pieces(stages, branches, deepest, logits.state, network.readout_parameters()), logits.directions


def carries_directions(network: StagedNetwork) -> bool:
    """Whether a forward pass may be tried with directions: nothing in it changes if it has to be run again."""
    changes = any(isinstance(module, nn.modules.batchnorm._BatchNorm | nn.Dropout) for module in network.modules())
    return type(network).in_pieces is StagedNetwork.in_pieces and not changes


def moving(found: Any) -> Moving:
    """A result that still has its directions; refused if they were lost."""
    if not isinstance(found, Moving):
        raise Unlisted
    return found


class Moving:
    """A state with directions at it, which goes through listed layers, sums and multiples like a tensor."""

    def __init__(self, state: Tensor, directions: Tensor) -> None:
        self.state, self.directions = state, directions

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Moving:
        layer, kwargs = LAYERS.get(func), kwargs or {}
        if layer is None or not args or not isinstance(args[0], cls):
            raise Unlisted
        if any(isinstance(part, cls) for part in (*args[1:], *kwargs.values())):
            raise Unlisted
        output, push = layer(args[0].state, *args[1:], **kwargs)
        with torch.no_grad():
            return cls(output, push(args[0].directions))

    def __add__(self, other: Any) -> Moving:
        if not isinstance(other, Moving) or other.state.shape != self.state.shape:
            raise Unlisted
        with torch.no_grad():
            directions = self.directions + other.directions
        return Moving(self.state + other.state, directions)

    def __mul__(self, factor: Any) -> Moving:
        if not isinstance(factor, int | float):
            raise Unlisted
        return Moving(self.state * factor, self.directions * factor)

    __rmul__ = __mul__

    def __getattr__(self, name: str) -> Any:
        raise Unlisted


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> tuple[Tensor, Push]:
    return F.linear(x, weight, bias), lambda v: F.linear(v, weight)


def _conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *how: Any, **more: Any) -> tuple[Tensor, Push]:
    def push(v: Tensor) -> Tensor:
        out: Tensor = F.conv2d(v.flatten(0, 1), weight, None, *how, **more)
        return out.view(*v.shape[:2], *out.shape[1:])

    return F.conv2d(x, weight, bias, *how, **more), push


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> tuple[Tensor, Push]:
    """v̂ = (v - mean(v) - x̂ mean(x̂ v))/σ,  x̂ = (x - mean(x))/σ;  then the weight."""
    output, mean, scale = torch.native_layer_norm(x, list(normalized_shape), weight, bias, eps)
    axes = tuple(range(-len(normalized_shape), 0))

    def push(v: Tensor) -> Tensor:
        unit = (x - mean) * scale
        along = (unit * v).mean(axes, keepdim=True)
        moved = torch.addcmul(v - v.mean(axes, keepdim=True), unit, along, value=-1)
        return moved.mul_(scale if weight is None else scale * weight)

    return output, push


def _gelu(x: Tensor, *, approximate: str = "none") -> tuple[Tensor, Push]:
    def push(v: Tensor) -> Tensor:
        slope: Tensor = torch.ops.aten.gelu_backward(torch.ones_like(x), x, approximate=approximate)
        return v * slope

    return F.gelu(x, approximate=approximate), push


def _relu(x: Tensor, inplace: bool = False) -> tuple[Tensor, Push]:
    return torch.relu(x), lambda v: v * (x > 0)


def _tanh(x: Tensor) -> tuple[Tensor, Push]:
    output = torch.tanh(x)
    return output, lambda v: v * (1 - output.square())


def _sigmoid(x: Tensor) -> tuple[Tensor, Push]:
    output = torch.sigmoid(x)
    return output, lambda v: v * (output * (1 - output))


LAYERS: dict[Any, Callable[..., tuple[Tensor, Push]]] = {
    F.linear: _linear,
    F.conv2d: _conv2d,
    F.layer_norm: _layer_norm,
    F.gelu: _gelu,
    F.relu: _relu,
    torch.relu: _relu,
    torch.tanh: _tanh,
    torch.sigmoid: _sigmoid,
}
