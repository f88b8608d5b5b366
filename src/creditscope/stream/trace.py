"""Trace: the states of one forward pass, and every sample's own gradient at each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.arguments import calling
from creditscope.batch import Batch
from creditscope.errors import CreditscopeError, InvalidInput, ModelMismatch
from creditscope.stream.isolation import constant_parameters
from creditscope.stream.states import Shifts, Stream

LossFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Trace:
    """The result of one forward and one backward pass over a batch.

    hiddens    h_0..h_L in the model's own shapes, detached
    gradients  g_l = ∂ℓ/∂h_l, of each sample's own loss (the sum over the batch, never the mean)
    error      ∂ℓ/∂logits; for cross-entropy e = softmax(logits) - onehot(labels)
    losses     one per sample (or position)
    """

    hiddens: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    error: Tensor
    logits: Tensor
    labels: Tensor
    losses: Tensor


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Each sample's own cross-entropy; half-precision logits are converted to float32."""
    if logits.dtype in (torch.float16, torch.bfloat16):
        logits = logits.float()
    return F.cross_entropy(logits, labels, reduction="none")


def capture(stream: Stream, batch: Batch, loss_fn: LossFunction = cross_entropy, *, settle: bool = False) -> Trace:
    """One forward and one backward pass: states, gradients, logits; with `settle` the read rule is settled by them.

    The parameters of the blocks are constants meanwhile: autograd then does not keep the inputs of linear layers, about
    a third of what it keeps of a transformer. Where a block's own backward pass needs them, nothing is constant.
    """
    if not stream.constant_blocks:
        return _captured(stream, batch, loss_fn, settle)
    try:
        with constant_parameters(stream.constants()):
            return _captured(stream, batch, loss_fn, settle)
    except (CreditscopeError, RuntimeError, TypeError, AttributeError, ValueError):
        trace = _captured(stream, batch, loss_fn, settle)  # raises again what has another reason
        stream.constant_blocks = False
        return trace


def _captured(stream: Stream, batch: Batch, loss_fn: LossFunction, settle: bool) -> Trace:
    with torch.enable_grad():
        forward = stream.run(batch.inputs)
        if settle:
            stream.settle_by(batch.inputs, forward)
        losses = per_sample(loss_fn, forward.logits, batch.labels)
        named = {f"h_{layer}": anchor for layer, anchor in enumerate(forward.anchors)}
        *gradients, error = _derivatives(losses, {**named, "logits": forward.logits}, type(stream.model).__name__)
        one_each = forward.logits.dim() == 1  # a regression with one number per sample
    return Trace(
        hiddens=tuple(state.detach() for state in forward.hiddens),
        gradients=tuple(stream.oriented(gradient, layer) for layer, gradient in enumerate(gradients)),
        error=error[:, None] if one_each else error,
        logits=forward.logits.detach()[:, None] if one_each else forward.logits.detach(),
        labels=batch.labels,
        losses=losses.detach(),
    )


def _derivatives(losses: Tensor, by: dict[str, Tensor], model: str) -> tuple[Tensor, ...]:
    """∂Σℓ/∂x for each of the named tensors x; one that the losses do not depend on is refused."""
    live = [tensor for tensor in by.values() if tensor.requires_grad and losses.requires_grad]
    # of the sum: given a cotangent, PyTorch imports its symbolic shapes, half a second of a process
    gradients = torch.autograd.grad(losses.sum(), live, allow_unused=True) if live else ()
    known = tuple(gradient for gradient in gradients if gradient is not None)
    if len(known) < len(by):
        used = {id(tensor) for tensor, gradient in zip(live, gradients, strict=True) if gradient is not None}
        name = next(name for name, tensor in by.items() if id(tensor) not in used)
        raise ModelMismatch(
            f"The loss of {model} does not depend on its {name} as returned.\n"
            "The gradient would be zero by accident. Return the states and logits that the network itself uses, not "
            "detached copies, or pass blocks= the path of its block list."
        )
    return known


def output_error(logits: Tensor, labels: Tensor, loss_fn: LossFunction = cross_entropy) -> Tensor:
    """∂ℓ/∂logits of logits whose network is not at hand; for cross-entropy softmax(logits) - onehot(labels)."""
    with torch.enable_grad():
        root = logits.detach().clone().requires_grad_()
        (error,) = torch.autograd.grad(per_sample(loss_fn, root, labels).sum(), root)
    return error


def losses_at(stream: Stream, batch: Batch, shifts: Shifts, loss_fn: LossFunction = cross_entropy) -> Tensor:
    """Each sample's loss with its states moved by `shifts`; no gradient."""
    with torch.no_grad():
        return per_sample(loss_fn, stream.run(batch.inputs, shifts).logits, batch.labels)


def per_sample(loss_fn: LossFunction, logits: Tensor, labels: Tensor) -> Tensor:
    """The losses; a loss function that does not return one per sample is refused."""
    with calling("loss_fn", "a function (logits, labels) -> one loss per sample"):
        losses = loss_fn(logits, labels)
    if not isinstance(losses, Tensor):
        raise InvalidInput(
            f"loss_fn returned a {type(losses).__name__}, not a tensor.\n"
            "There is nothing to differentiate. Return one loss per sample."
        )
    if losses.dim() == 0 or losses.shape[0] != logits.shape[0]:
        raise InvalidInput(
            f"loss_fn returned shape {tuple(losses.shape)} for {logits.shape[0]} samples.\n"
            "Gradients of a mean contain 1/N, so that every limit would depend on the batch size. "
            'Return one loss per sample (reduction="none").'
        )
    return losses
