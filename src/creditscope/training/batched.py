"""Functions that one kernel computes for all runs of a stack: their operands are (K, ...) where one run's are (...).

Each has the bits of the single run on the CPU, so that its products and sums have the same layout and order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.methods import feedback_layers


def _matmul(left: Tensor, right: Tensor) -> Any:
    """Rows (K, ..., c) times matrices (K, c, d)."""
    if left.dim() < 3 or right.dim() != 3:
        return NotImplemented
    return torch.bmm(left.flatten(1, -2), right).view(*left.shape[:-1], right.shape[-1])


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """x Wᵀ + b."""
    return NotImplemented if x.dim() < 3 else _product(weight, x, weight, bias)


def _feedback_linear(feedback: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    """x Wᵀ + b, with B in place of W on the way back."""
    if x.dim() < 3:
        return NotImplemented
    out = _product(feedback, x, weight, None)
    return out if bias is None else out + bias.view(bias.shape[:1] + (1,) * (x.dim() - 2) + bias.shape[1:])


def _product(back: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    out: Tensor = _Product.apply(back, x.flatten(1, -2), weight, bias)  # type: ignore[no-untyped-call]
    return out.view(*x.shape[:-1], -1)


class _Product(torch.autograd.Function):
    """x Wᵀ + b, and `back` in place of W on the way back: W itself, or feedback.

    The products of the gradients are those that PyTorch makes of a Linear, in the same layout, for the same bits.
    """

    @staticmethod
    def forward(ctx: Any, back: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(back, x)
        return torch.bmm(x, weight.mT) if bias is None else torch.baddbmm(bias[:, None], x, weight.mT)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Tensor | None, ...]:
        back, x = ctx.saved_tensors
        (cotangent,) = cotangents
        into = torch.bmm(cotangent, back) if ctx.needs_input_grad[1] else None
        weight = torch.bmm(cotangent.mT, x) if ctx.needs_input_grad[2] else None
        return None, into, weight, cotangent.sum(1) if ctx.needs_input_grad[3] else None


def _flatten(tensor: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    return tensor.flatten(_later(start_dim), _later(end_dim))


def _reduced(reduce: Callable[..., Tensor]) -> Callable[..., Any]:
    """A sum or mean over some axes, or over all of one run's tensor."""

    def of_each(tensor: Tensor, dim: Any = None, **more: Any) -> Any:
        if dim is not None:
            return reduce(tensor, tuple(map(_later, dim)) if isinstance(dim, tuple | list) else _later(dim), **more)
        if not tensor[0].is_contiguous():  # one run's is summed in the order of its memory
            return NotImplemented
        return reduce(tensor.flatten(1), 1, **more)

    return of_each


def _softmax(tensor: Tensor, dim: int | None = None, *rest: Any, **more: Any) -> Any:
    return NotImplemented if dim is None else F.softmax(tensor, _later(dim), *rest, **more)


def _later(dim: int) -> int:
    """An axis of one run's tensor in that of the stack."""
    return dim + 1 if dim >= 0 else dim


def _gradients(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: Any = None, *others: Any, **more: Any
) -> Any:
    """`torch.autograd.grad`: no gradient goes from one run to another, so that those of their sum are those of each."""
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    cotangents = [None] * len(outputs) if grad_outputs is None else grad_outputs
    cotangents = [cotangents] if isinstance(cotangents, Tensor) else list(cotangents)
    filled = [torch.ones_like(out) if given is None else given for out, given in zip(outputs, cotangents, strict=True)]
    return torch.autograd.grad(outputs, inputs, filled, retain_graph, *others, **more)


def _spellings(*names: str) -> set[Any]:
    """The functions of these names, as methods and as functions of torch and of torch.nn.functional."""
    return {getattr(place, name) for place in (Tensor, torch, F) for name in names if hasattr(place, name)}


def _getters(*names: str) -> set[Any]:
    return {getattr(Tensor, name).__get__ for name in names}


ELEMENTWISE = _spellings(
    *("abs", "neg", "exp", "log", "sqrt", "rsqrt", "square", "sign", "clone", "detach", "requires_grad_", "contiguous"),
    *("relu", "tanh", "sigmoid", "gelu", "silu", "elu", "softplus", "leaky_relu", "isfinite", "float", "double"),
    *("zeros_like", "ones_like", "empty_like", "logical_not", "bitwise_not", "__invert__", "__neg__", "__abs__"),
    *("add", "sub", "mul", "div", "pow", "where", "maximum", "minimum", "clamp", "addcmul", "lerp", "masked_fill"),
    *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__", "__pow__"),
    *("__lt__", "__le__", "__gt__", "__ge__", "__eq__", "__ne__", "lt", "le", "gt", "ge", "eq", "ne", "__and__"),
    *("add_", "sub_", "mul_", "div_", "masked_fill_", "copy_", "neg_", "square_", "sqrt_", "zero_", "fill_"),
)
DESCRIPTIONS = _getters("shape", "ndim") | _spellings("dim", "size", "numel", "__len__", "is_floating_point", "stride")
READINGS = _spellings("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__", "__repr__", "equal")

TOGETHER: dict[Any, Callable[..., Any]] = {
    **{func: func for func in _spellings("to", "type_as")},
    **{func: func for func in _getters("requires_grad", "is_leaf", "grad_fn", "dtype", "device")},
    **dict.fromkeys(_spellings("matmul", "mm", "__matmul__"), _matmul),
    **dict.fromkeys(_spellings("flatten"), _flatten),
    **{func: _reduced(func) for func in _spellings("mean", "sum")},
    **dict.fromkeys(_spellings("softmax"), _softmax),
    torch.autograd.grad: _gradients,
    F.linear: _linear,
    feedback_layers.linear: _feedback_linear,
}
