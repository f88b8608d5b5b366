"""Rules inside every weight: W forward, another matrix of its shape on the way back, in every Linear and Conv2d."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from creditscope.batch import Batch
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.methods.bp import EndToEnd
from creditscope.methods.feedback_layers import conv2d, linear
from creditscope.methods.loss import mean_loss
from creditscope.methods.rule import Feedback
from creditscope.networks.staged import StagedNetwork
from creditscope.stream.isolation import undisturbed

OTHERS = (
    nn.Conv1d,
    nn.Conv3d,
    nn.modules.conv._ConvTransposeNd,
    nn.Bilinear,
    nn.RNNBase,
    nn.RNNCellBase,
    nn.MultiheadAttention,
)
PRODUCTS: frozenset[Any] = frozenset(
    {torch.matmul, torch.mm, torch.mv, torch.bmm, torch.addmm, torch.baddbmm, torch.einsum, Tensor.matmul, Tensor.mm}
    | {Tensor.mv, Tensor.bmm, Tensor.addmm, Tensor.baddbmm, Tensor.__matmul__, Tensor.__rmatmul__}
)


class InsideWeights(EndToEnd):
    """A rule that replaces every weight by another matrix on the way back.

        y = x Wᵀ;   ∂ℓ/∂x := (∂ℓ/∂y) B,   ∂ℓ/∂W = (∂ℓ/∂y)ᵀ x

    With B = W it is backprop. The head's own weight learns exactly; the layers below it receive credit through B.
    """

    @abstractmethod
    def backward_weights(self, network: StagedNetwork, feedback: Feedback) -> Mapping[str, Tensor]:
        """B by the name of the weight that it stands for on the way back, and of its shape."""

    def following(self, network: StagedNetwork, feedback: Feedback) -> FeedbackMode:
        """The forward pass under a mode that replaces the backward pass of every weight."""
        return FeedbackMode(weights_of(network), self.backward_weights(network, feedback), network.title)

    def signals_under(
        self, network: StagedNetwork, feedbacks: Iterable[Feedback], batch: Batch
    ) -> Iterator[tuple[Tensor, ...]]:
        """One forward pass for all of them, and one backward pass each, which asks for no weight's gradient.

        The graph holds stand-ins of the feedback: each draw in turn lends them its numbers.
        """
        draws = (self.backward_weights(network, feedback) for feedback in feedbacks)
        first = next(draws, None)
        if first is None:
            return
        weights = weights_of(network)
        stand_ins = {name: weights[name].detach() for name in first}
        with torch.enable_grad(), FeedbackMode(weights, stand_ins, network.title, learning=False):
            walk = network.walk(batch.inputs, from_embedding=False)
            loss, count = mean_loss(network.loss_fn, walk.logits, batch.labels)
        for draw in chain([first], draws):
            for name, stand_in in stand_ins.items():
                stand_in.data = draw[name].to(weights[name])
            signals = torch.autograd.grad(loss, walk.anchors, retain_graph=True)
            yield tuple(walk.oriented(signal, layer) * count for layer, signal in enumerate(signals))


def check_names(weights: Mapping[str, Tensor], feedback: Mapping[str, Tensor], owner: str) -> None:
    """Refuse feedback that is not for these weights."""
    missing = sorted(weights.keys() ^ feedback.keys())
    if missing:
        raise ModelMismatch(
            f"Feedback and weights of {owner} do not match: {', '.join(missing)}.\n"
            "Some weight would be trained by backprop. Draw feedback for this network."
        )


def weights_of(network: StagedNetwork) -> dict[str, Tensor]:
    """Every weight of a Linear or Conv2d by name; layers of another kind are refused: no B reaches them."""
    others = [
        f"{name} ({type(layer).__name__})" for name, layer in network.named_modules() if isinstance(layer, OTHERS)
    ]
    if others:
        raise ModelMismatch(
            f"{network.title} has layers that are neither Linear nor Conv2d: {', '.join(others)}.\n"
            "The layers below them would silently be trained by backprop. Use Linear and Conv2d, or the rule 'fa'."
        )
    return {
        f"{name}.weight": layer.weight
        for name, layer in network.named_modules()
        if isinstance(layer, nn.Linear | nn.Conv2d)
    }


def weights_on_the_way_back(network: StagedNetwork, example: Batch) -> dict[str, Tensor]:
    """The weights that credit passes on its way down: all but those that read the data themselves."""
    recorder = _Recorder(weights_of(network))
    with undisturbed(network), torch.enable_grad(), recorder:
        network(example.inputs)
    return recorder.passed


def fan_out(weight: Tensor) -> float:
    """The number of terms in a sum of the backward product."""
    return weight.numel() / weight.shape[1]


def drawn(weight: Tensor, scale: float, generator: torch.Generator) -> Tensor:
    """B in the shape of a weight, scale · N(0, 1)/√fan_out."""
    if not 0 < scale < float("inf"):
        raise InvalidInput(
            f"scale must be a positive, finite number, got {scale!r}.\n"
            "Nothing would be carried back, or nothing finite. The default is 1."
        )
    matrix: Tensor = torch.randn(weight.shape, generator=generator) / fan_out(weight) ** 0.5 * scale
    return matrix


class _WeightMode(TorchFunctionMode, ABC):
    """Notices every call of F.linear and F.conv2d with one of the weights."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._weights = weights
        self._names = {id(weight): name for name, weight in weights.items()}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.linear or func is F.conv2d:
            name = self._names.get(id(args[1] if len(args) > 1 else kwargs.get("weight")))
            if name is not None:
                return self.called(name, func, args, kwargs)
        return func(*args, **kwargs)

    @abstractmethod
    def called(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call with the weight `name`."""


class _Recorder(_WeightMode):
    """Records the weights whose input carries a gradient."""

    def __init__(self, weights: Mapping[str, Tensor]) -> None:
        super().__init__(weights)
        self.passed: dict[str, Tensor] = {}

    def called(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if _input(args, kwargs).requires_grad:
            self.passed[name] = self._weights[name]
        return func(*args, **kwargs)


class FeedbackMode(_WeightMode):
    """Intercepts F.linear and F.conv2d, from outside the network, and raises if a feedback tensor was never used.

    nn.MultiheadAttention bypasses F.linear and would silently train by backprop: the check is for such layers. A weight
    without feedback is refused unless it reads the data themselves, where no credit goes on.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], feedback: Mapping[str, Tensor], owner: str, *, learning: bool = True
    ) -> None:
        super().__init__(weights)
        check_names({name: weights[name] for name in weights if name in feedback}, feedback, owner)
        self._learning = learning  # whether the weights' own gradients will be asked for
        self._owner = owner
        self._feedback = feedback
        self._used: set[str] = set()

    def called(self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same result, with B on the way back."""
        weight = self._weights[name]
        if name not in self._feedback:
            if _input(args, kwargs).requires_grad:
                check_names({**self._feedback, name: weight}, self._feedback, self._owner)
            return func(*args, **kwargs)
        self._used.add(name)
        instead = linear if func is F.linear else conv2d
        if not self._learning:
            args = tuple(weight.detach() if part is weight else part for part in args)
            kwargs = {key: weight.detach() if part is weight else part for key, part in kwargs.items()}
        return instead(self._feedback[name].to(weight), *args, **kwargs)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in PRODUCTS and any(map(_is_parameter, (*args, *(kwargs or {}).values()))):
            raise ModelMismatch(
                f"A parameter of {self._owner} is multiplied by {func.__name__}, not by F.linear or F.conv2d.\n"
                "Credit would pass it as in backprop. Use nn.Linear and nn.Conv2d, or the rule 'fa'."
            )
        return super().__torch_function__(func, types, args, kwargs)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        super().__exit__(kind, error, traceback)  # type: ignore[no-untyped-call]
        unused = sorted(set(self._feedback) - self._used)
        if kind is None and unused:
            raise ModelMismatch(
                f"The feedback of {', '.join(unused)} was never used in the forward pass of {self._owner}.\n"
                "These weights, and the layers below them, would silently be trained by backprop. Use layers that call "
                "F.linear or F.conv2d (nn.MultiheadAttention does not)."
            )


def _is_parameter(part: Any) -> bool:
    """Whether an argument of a product is a parameter, or a view of one, or holds one."""
    if isinstance(part, tuple | list):
        return any(map(_is_parameter, part))
    return isinstance(part, Tensor) and (isinstance(part, nn.Parameter) or isinstance(part._base, nn.Parameter))


def _input(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    given: Tensor = args[0] if args else kwargs["input"]
    return given
