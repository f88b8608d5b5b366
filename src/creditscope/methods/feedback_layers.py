"""F.linear and F.conv2d with another matrix in place of the weight on the way back."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.grad import conv2d_input, conv2d_weight
from torch.overrides import handle_torch_function, has_torch_function

from creditscope.stream.convolution import Convolution


def linear(feedback: Tensor, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """F.linear with `feedback` in place of the weight on the way back."""
    if has_torch_function((feedback, input, weight)):
        return handle_torch_function(linear, (feedback, input, weight), feedback, input, weight, bias)
    out: Tensor = _Linear.apply(feedback, input, weight)  # type: ignore[no-untyped-call]
    return out if bias is None else out + bias


def conv2d(feedback: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """F.conv2d with `feedback` in place of the weight on the way back."""
    tensors = (feedback, *(part for part in (*args, *kwargs.values()) if isinstance(part, Tensor)))
    if has_torch_function(tensors):
        return handle_torch_function(conv2d, tensors, feedback, *args, **kwargs)
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
        into = cotangent @ feedback.to(cotangent) if ctx.needs_input_grad[1] else None
        rows = x.to(cotangent).flatten(0, -2)  # under autocast the input was converted inside F.linear
        weight = cotangent.flatten(0, -2).T @ rows if ctx.needs_input_grad[2] else None
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
            into = conv2d_input(x.shape, feedback.to(cotangent), cotangent, *ctx.how)  # type: ignore[no-untyped-call]
        if ctx.needs_input_grad[2]:
            weight = conv2d_weight(x.to(cotangent), feedback.shape, cotangent, *ctx.how)  # type: ignore[no-untyped-call]
        return None, into, weight, None, None, None, None
