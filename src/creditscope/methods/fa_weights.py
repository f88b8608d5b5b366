"""Feedback alignment inside every weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.overrides import TorchFunctionMode

from creditscope.batch import Batch
from creditscope.errors import ModelMismatch
from creditscope.methods import method
from creditscope.methods.bp import EndToEnd
from creditscope.methods.loss import mean_loss
from creditscope.methods.rule import Feedback
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.convolution import Convolution

OTHERS = (nn.Conv1d, nn.Conv3d, nn.modules.conv._ConvTransposeNd, nn.Bilinear, nn.RNNBase, nn.RNNCellBase)


@method(
    "fa_weights",
    summary="Feedback alignment inside every Linear and Conv2d: W forward, a fixed random B backward.",
    formula="y = x Wᵀ;  ∂ℓ/∂x := (∂ℓ/∂y) B,  ∂ℓ/∂W = (∂ℓ/∂y)ᵀ x",
    feedback="B (the shape of W) ~ N(0, 1)/√fan_out for every Linear and Conv2d, drawn once",
    paper="Lillicrap et al. (2016)",
)
@dataclass(frozen=True)
class WeightFeedback(EndToEnd):
    """Classic feedback alignment in every Linear and Conv2d.

    fan_out is the number of terms in a sum of the backward product. With B = W it is backprop. The head's own weight
    learns exactly; the layers below it receive credit through B.
    """

    def feedback(self, network: StagedNetwork, example: Batch, generator: torch.Generator) -> Feedback:
        """One tensor per weight, of its shape."""
        _check_layers(network)
        return Feedback(
            {
                name: torch.randn(weight.shape, generator=generator) / (weight.numel() / weight.shape[1]) ** 0.5
                for name, weight in _weights(network).items()
            }
        )

    def following(self, network: StagedNetwork, feedback: Feedback) -> FeedbackMode:
        """The forward pass under a mode that replaces the backward pass of every weight."""
        return FeedbackMode(_weights(network), feedback.tensors, network.title)

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """One forward pass for all of them, and one backward pass each, which asks for no weight's gradient.

        The graph holds stand-ins of the feedback: each draw in turn lends them its numbers.
        """
        weights, owner = _weights(network), network.title
        stand_ins = {name: weight.detach() for name, weight in weights.items()}
        with torch.enable_grad(), FeedbackMode(weights, stand_ins, owner, learning=False):
            walk = network.walk(batch.inputs, from_embedding=False)
            loss, count = mean_loss(network.loss_fn, walk.logits, batch.labels)
        for feedback in feedbacks:
            check_names(weights, feedback.tensors, owner)
            for name, stand_in in stand_ins.items():
                stand_in.data = feedback.tensors[name].to(weights[name])
            signals = torch.autograd.grad(loss, walk.anchors, retain_graph=True)
            yield tuple(walk.oriented(signal) * count for signal in signals)


def check_names(weights: Mapping[str, Tensor], feedback: Mapping[str, Tensor], owner: str) -> None:
    """Refuse feedback that is not for these weights."""
    missing = sorted(weights.keys() ^ feedback.keys())
    if missing:
        raise ModelMismatch(
            f"Feedback and weights of {owner} do not match: {', '.join(missing)}.\n"
            "Some weight would be trained by backprop. Draw feedback for this network."
        )


def _weights(network: nn.Module) -> dict[str, Tensor]:
    return {
        f"{name}.weight": layer.weight
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear | nn.Conv2d)
    }


def _check_layers(network: StagedNetwork) -> None:
    """Refuse layers with weights of another kind: no feedback reaches them."""
    others = [
        f"{name} ({type(layer).__name__})" for name, layer in network.named_modules() if isinstance(layer, OTHERS)
    ]
    if others:
        raise ModelMismatch(
            f"{network.title} has layers that are neither Linear nor Conv2d: {', '.join(others)}.\n"
            "The layers below them would silently be trained by backprop. Use Linear and Conv2d, or the rule 'fa'."
        )


class FeedbackMode(TorchFunctionMode):
    """Intercepts F.linear and F.conv2d, from outside the network, and raises if a feedback tensor was never used.

    nn.MultiheadAttention bypasses F.linear and would silently train by backprop: the check is for such layers.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], feedback: Mapping[str, Tensor], owner: str, *, learning: bool = True
    ) -> None:
        super().__init__()
        check_names(weights, feedback, owner)
        self._learning = learning  # whether the weights' own gradients will be asked for
        self._owner = owner
        self._names = {id(weight): name for name, weight in weights.items()}
        self._feedback = feedback
        self._used: set[str] = set()

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear or func is F.conv2d:
            weight = args[1] if len(args) > 1 else kwargs.get("weight")
            name = self._names.get(id(weight))
            if name is not None:
                self._used.add(name)
                instead = linear if func is F.linear else conv2d
                if not self._learning:
                    args = tuple(weight.detach() if part is weight else part for part in args)
                    kwargs = {key: weight.detach() if part is weight else part for key, part in kwargs.items()}
                return instead(self._feedback[name].to(weight), *args, **kwargs)
        return func(*args, **kwargs)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        unused = sorted(set(self._feedback) - self._used)
        if kind is None and unused:
            raise ModelMismatch(
                f"The feedback of {', '.join(unused)} was never used in the forward pass of {self._owner}.\n"
                "These weights, and the layers below them, would silently be trained by backprop. Use layers that call "
                "F.linear or F.conv2d (nn.MultiheadAttention does not)."
            )


def linear(feedback: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear with `feedback` in place of the weight on the way back."""
    out: Tensor = _Linear.apply(feedback, input, weight)  # type: ignore[no-untyped-call]
    return out if bias is None else out + bias


def conv2d(feedback: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """F.conv2d with `feedback` in place of the weight on the way back."""
    call = Convolution.of(*args, **kwargs)
    out: Tensor = _Conv2d.apply(  # type: ignore[no-untyped-call]
        feedback, call.input, call.weight, call.stride, call.padding, call.dilation, call.groups
    )
    return out if call.bias is None else out + call.bias.view(-1, 1, 1)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, feedback: Tensor, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(feedback, x)
        return F.linear(x, weight)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[None, Tensor | None, Tensor | None]:
        feedback, x = ctx.saved_tensors
        (cotangent,) = cotangents
        into = cotangent @ feedback if ctx.needs_input_grad[1] else None
        weight = cotangent.flatten(0, -2).T @ x.flatten(0, -2) if ctx.needs_input_grad[2] else None
        return None, into, weight


class _Conv2d(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, feedback: Tensor, x: Tensor, weight: Tensor, *how: Any) -> Tensor:
        ctx.save_for_backward(feedback, x)
        ctx.how = how
        return F.conv2d(x, weight, None, *how)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        feedback, x = ctx.saved_tensors
        (cotangent,) = cotangents
        into = weight = None
        if ctx.needs_input_grad[1]:
            into = conv2d_input(x.shape, feedback, cotangent, *ctx.how)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[2]:
            weight = conv2d_weight(x, feedback.shape, cotangent, *ctx.how)  # type: ignore[no-untyped-call]
        return None, into, weight, None, None, None, None
