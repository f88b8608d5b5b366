"""Checks of a model's answers: the same twice, and for each image by itself."""

from __future__ import annotations

import torch
from torch import Tensor

from creditscope.batch import Batch, each_tensor
from creditscope.errors import FunctionFailed, ModelMismatch, NotDeterministic
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.isolation import as_float64, float64_copies
from creditscope.stream.states import Stream

INDEPENDENT, INDEPENDENT_COARSELY = 1e-3, 0.1  # of the largest logit, in float64 and in a lower precision
FEW_IMAGES = 2  # the first images of the first batch: they show the structure of a model, and its answers
PROBE_IMAGES = 8  # where these answers are not those within the batch, or positions are few, so many are looked at


def answers(stream: Stream, batch: Batch) -> Tensor:
    """The logits of a batch, without a graph."""
    with torch.no_grad():
        return stream.run(batch.inputs).logits


def check_deterministic(stream: Stream, batch: Batch, first: Tensor | None = None) -> Tensor:
    """The logits of a batch (`first` if they are known); a model that does not give the same ones twice is refused."""
    first = answers(stream, batch) if first is None else first
    second = answers(stream, batch)
    if not _agree(first, second):
        raise NotDeterministic(
            f"{type(stream.model).__name__} returned two different logits for the same images in evaluation mode, "
            f"up to {(first - second).abs().max().item():.3g} apart.\n"
            "Medians and gradients would vary from run to run. Is dropout or noise applied regardless of .training?"
        )
    stream.verify(batch.inputs, first)
    return first


def check_answers(
    stream: Stream,
    batch: Batch,
    first: Tensor,
    within: Tensor | None = None,
    *,
    among: Batch | None = None,
    independent: bool = True,
) -> Guard:
    """Refuse a model that is not deterministic, or whose answer for an image depends on the others in its batch.

    first   the logits of the batch
    within  those of the same images as part of a larger batch; without them, half of the images are run once more,
            in reverse order. Where they agree with `first`, one pass has answered both questions
    among   more of the images, to measure the dependence where they do not agree
    independent  False if the caller knows of the dependence: it is said in the guard, not refused
    """
    few = None if within is not None else _half(batch)
    try:
        other = within if within is not None else answers(stream, few or batch)
    except (RuntimeError, ValueError, TypeError, LookupError):
        few, other = None, answers(stream, batch)  # it takes no other number of images
    own = _half_of(first) if few is not None else first
    if other.numel() == own.numel() and _agree(own, other.reshape(own.shape)):
        stream.verify(batch.inputs, first)
        if few is None and within is None:
            return Guard(GuardStatus.NOT_POSSIBLE, "the model was run on one set of images only")
        return Guard(GuardStatus.PASSED)
    check_deterministic(stream, batch, first)
    whole = among or batch
    part = _half(whole)
    apart, limit = (0.0, 0.0) if part is None else _apart(stream, whole, part)
    if apart > limit and not independent:
        text = f"answers differ by {100 * apart:.2g} % of the largest logit when other images are left out"
        return Guard(GuardStatus.OFF, text)
    if apart > limit:
        raise ModelMismatch(
            f"The answers of {type(stream.model).__name__} for the same images differ by {100 * apart:.2g} % of the "
            "largest logit when other images of the batch are left out.\n"
            "States and gradients of an image would depend on how the images are batched. Does a normalisation use "
            "batch statistics in evaluation mode (track_running_stats=False)? Give it running statistics, or pass "
            "independent=False to have the dependence reported instead."
        )
    return Guard(GuardStatus.PASSED, "up to rounding")


def _apart(stream: Stream, batch: Batch, few: Batch) -> tuple[float, float]:
    """How far apart the answers are, of the largest, and how far rounding may move them.

    In float64 where possible: there a chaotic network does not amplify rounding to the size of the logits.
    """
    try:
        with float64_copies(stream.model):
            whole, part = (answers(stream, as_float64(images)) for images in (batch, few))
        limit = INDEPENDENT
    except (FunctionFailed, RuntimeError, TypeError, AttributeError):  # a layer requires its own precision
        whole, part, limit = answers(stream, batch), answers(stream, few), INDEPENDENT_COARSELY
    largest = whole.abs().max()
    return (float((_half_of(whole) - part).abs().max() / largest) if largest > 0 else 0.0), limit


def _half(batch: Batch) -> Batch | None:
    """The first half of the images in reverse order; None of a single image."""
    count = len(batch.labels)
    if count < 2:
        return None

    def half(tensor: Tensor) -> Tensor:
        return _half_of(tensor) if tensor.dim() and len(tensor) == count else tensor

    return Batch(each_tensor(batch.inputs, half), half(batch.labels))


def _half_of(tensor: Tensor) -> Tensor:
    return tensor[: (len(tensor) + 1) // 2].flip(0)


def _agree(first: Tensor, second: Tensor) -> bool:
    return torch.allclose(first, second, rtol=1e-3, atol=1e-5, equal_nan=True)
