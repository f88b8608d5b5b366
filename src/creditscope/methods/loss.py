"""The loss of a batch and its error at the logits, for cross-entropy or a loss function of the user's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from creditscope.arguments import calling
from creditscope.errors import InvalidInput

LossFunction = Callable[[Tensor, Tensor], Tensor]
HALF = (torch.float16, torch.bfloat16)


def squared_error(logits: Tensor, labels: Tensor) -> Tensor:
    """½ ‖logits - onehot(labels)‖² of each sample."""
    return (logits - _one_hot(logits, labels)).square().sum(1) / 2


def sigmoid_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """-Σ_j y_j log σ(z_j) + (1 - y_j) log(1 - σ(z_j)) of each sample: every class is a question of its own."""
    return F.binary_cross_entropy_with_logits(logits, _one_hot(logits, labels), reduction="none").sum(1)


def _one_hot(logits: Tensor, labels: Tensor) -> Tensor:
    return F.one_hot(labels, logits.shape[1]).to(logits)


LOSSES: Mapping[str, LossFunction | None] = {  # None is cross-entropy, whose digits are kept by a path of its own
    "cross_entropy": None,
    "squared_error": squared_error,
    "sigmoid": sigmoid_cross_entropy,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """What the loss says of a batch of logits.

    loss   the mean over the samples (or their positions), detached
    error  e = ∂ℓ/∂logits of each sample's own loss
    count  how many losses the mean is over
    """

    loss: Tensor
    error: Tensor
    count: int


def output_error(logits: Tensor, labels: Tensor) -> Tensor:
    """e = softmax(logits) - onehot(labels)."""
    error = F.softmax(logits, 1)
    return error.scatter_add(1, labels[:, None], -torch.ones_like(error[:, :1]))


def judged(loss_fn: LossFunction | None, logits: Tensor, labels: Tensor) -> Judged:
    """The loss and its error; half-precision logits are converted to float32."""
    logits = widened(logits.detach())
    if loss_fn is None:
        if _at_hand(labels):
            check_classes(logits, labels)
        return Judged(F.cross_entropy(logits, labels), output_error(logits, labels), len(logits))
    with torch.enable_grad():
        leaf = logits.requires_grad_()
        loss, count = mean_loss(loss_fn, leaf, labels)
        (error,) = torch.autograd.grad(loss * count, leaf)
    return Judged(loss.detach(), error, count)


def _at_hand(labels: Tensor) -> bool:
    """Whether a look at the labels waits for no device; those of several runs at once were checked as a dataset."""
    return labels.device.type == "cpu" and type(labels) is Tensor


def check_classes(logits: Tensor, labels: Tensor) -> None:
    """Refuse logits that are not (N, classes), and labels that name no class."""
    if logits.dim() != 2 or len(logits) != len(labels):
        raise InvalidInput(
            f"The logits have the shape {tuple(logits.shape)} for {len(labels)} labels, not (N, classes).\n"
            "Cross-entropy cannot pair them. Pass loss_fn= (logits, labels) -> one loss per sample, or their mean."
        )
    lowest, highest = int(labels.min()), int(labels.max())
    if lowest < 0 or highest >= logits.shape[1]:
        raise InvalidInput(
            f"The labels go from {lowest} to {highest}, but the model has {logits.shape[1]} logits.\n"
            "They name classes that it does not have. Pass class numbers from 0, or a model with more outputs."
        )


def mean_loss(loss_fn: LossFunction | None, logits: Tensor, labels: Tensor) -> tuple[Tensor, int]:
    """The mean loss in its graph, and how many losses it is the mean of; a loss of one number counts as the mean."""
    if loss_fn is None:
        if _at_hand(labels):
            check_classes(logits, labels)
        return F.cross_entropy(logits, labels, reduction="none").mean(), len(logits)
    with calling("loss_fn", "a function (logits, labels) -> one loss per sample, or their mean"):
        losses = loss_fn(logits, labels)
    if not isinstance(losses, Tensor) or not losses.is_floating_point() or not losses.requires_grad:
        what = "is cut from the logits" if isinstance(losses, Tensor) else f"is a {type(losses).__name__}"
        raise InvalidInput(
            f"What loss_fn returned {what}.\n"
            "It has no gradient, and nothing would learn. Return the loss of each sample, or their mean, as a tensor "
            "computed from the logits."
        )
    return (losses.mean(), losses.numel()) if losses.dim() else (losses, len(logits))


def each_loss(loss_fn: LossFunction | None, logits: Tensor, labels: Tensor) -> Tensor:
    """One loss per sample, in its graph, for rules whose samples settle independently; positions are summed."""
    if loss_fn is None:
        return F.cross_entropy(logits, labels, reduction="none")
    with calling("loss_fn", "a function (logits, labels) -> one loss per sample, or their mean"):
        losses = loss_fn(logits, labels)
    if not isinstance(losses, Tensor) or losses.dim() == 0 or len(losses) != len(logits):
        what = f"has the shape {tuple(losses.shape)}" if isinstance(losses, Tensor) else f"is a {type(losses).__name__}"
        raise InvalidInput(
            f"What loss_fn returned {what}, for {len(logits)} samples.\n"
            "Every sample settles by a loss of its own, and a mean would couple them. Return one loss per sample."
        )
    return losses.flatten(1).sum(1) if losses.dim() > 1 else losses


def widened(logits: Tensor) -> Tensor:
    """Half-precision logits in float32; others as they are."""
    return logits.float() if logits.dtype in HALF else logits


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Without the caller's autocast, which is for forward passes."""
    return torch.autocast(device.type, enabled=False) if torch.is_autocast_enabled(device.type) else nullcontext()
