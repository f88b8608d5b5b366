"""Label leak: compares the answers of a method under its own labels and under others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from creditscope.arguments import calling
from creditscope.batch import Batch, each_tensor
from creditscope.credit import CreditSource
from creditscope.errors import InvalidInput
from creditscope.evidence.credit import LabelLeak
from creditscope.progress import steps
from creditscope.stream.states import Stream
from creditscope.verdict import Missing, Reason

MOVED = 1e-4  # of the scale of the logits
ROUNDING = 4  # units in the last place of an image's logits
TRIALS = 9  # other labellings per batch: all of them for ten classes
ENOUGH = 16  # images from which on columns of the inputs that mark the classes are the labels and no coincidence

Answers = Callable[[Batch], Tensor]


def label_leak(answers: Answers, batches: Iterable[Batch], generator: torch.Generator) -> LabelLeak | Missing:
    """Share of images whose answer changes under at least one other labelling of their batch.

    Every labelling gives every image a label that it does not have. The inputs and their order stay, so that answers
    may depend on the other images of a batch. With the same labels the answers must agree, before and after the others
    were tried, or no conclusion is possible.
    """
    moved = flipped = images = trials = 0
    for batch in steps("looking for label leaks", batches):
        labellings = list(other_labels(batch.labels, generator))
        seen = _answered(answers, batch, labellings)
        if isinstance(seen, Missing):
            return seen
        true, others, tolerance = seen
        leaks = ~(_sizes(others - true) <= tolerance)  # (labellings, images)
        flips = leaks & (others.argmax(-1) != true.argmax(-1))
        moved, flipped = moved + int(leaks.any(0).sum()), flipped + int(flips.any(0).sum())
        images += len(true) if labellings else 0
        trials = max(trials, len(labellings))
    if not images:
        return Missing(Reason.NOT_POSSIBLE, "all images have the same label, so that none can be exchanged")
    return LabelLeak(moved / images, flipped, images, trials)


def _answered(answers: Answers, batch: Batch, labellings: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor] | Missing:
    """The answers under the true labels, (N, classes), those under the others, (labellings, N, classes), tolerances."""
    own = _rows(answers, batch)
    if not bool(own.isfinite().all()):
        return Missing(Reason.NOT_POSSIBLE, "the answers are not finite")
    tolerance, true = tolerances(own), own.double()
    second = _rows(answers, batch)
    others = [_rows(answers, with_labels(batch, labels)).double() for labels in labellings]
    for again in (second, _rows(answers, batch)):
        if not bool((_sizes(again - true) <= tolerance).all()):
            return Missing(Reason.NOT_POSSIBLE, "with the same labels the method answers differently the second time")
    return true, torch.stack(others) if others else true.new_zeros(0, *true.shape), tolerance


def other_labels(labels: Tensor, generator: torch.Generator) -> Iterator[Tensor]:
    """Up to 9 labellings of a batch, in each of which every image has a label that it does not have.

    The different labels y_0..y_{m-1} of the batch are shifted in a circle: y_k becomes y_{k+s mod m}, for all m - 1
    shifts s or for 9 random ones. With ten classes every image is shown every label once.
    """
    values, index = torch.unique(labels, dim=0, return_inverse=True)
    for shift in torch.randperm(len(values) - 1, generator=generator)[:TRIALS].tolist():
        yield values[(index + shift + 1) % len(values)]


def tolerances(answers: Tensor) -> Tensor:
    """The change of each image's logits that is no leak: 1e-4 of their scale, or rounding, whichever is larger.

    The scale is the median over images of ‖z_i - m‖, with m the mean of the image's own logits or the mean over the
    images, whichever leaves less: a common offset is no part of the answer. answers (N, classes) -> (N,) in float64.
    """
    eps = torch.finfo(answers.dtype).eps if answers.is_floating_point() else 0.0
    answers = answers.double()
    rounding = ROUNDING * eps * _sizes(answers)
    spreads = [_sizes(answers - answers.mean(axis, keepdim=True)).median() for axis in (0, 1)]
    known = [spread for spread in spreads if spread > rounding.median()]
    scale = torch.stack(known).min() if known else _sizes(answers).median()
    return torch.maximum(MOVED * scale, rounding)


def answers_of(stream: Stream, source: CreditSource | None, predict: Answers | None) -> Answers:
    """The function that predicts: the user's own, the source's inference phase, or the network itself.

    The network predicts after the credit was computed, which reveals an inference phase that leaves labels in it.
    """

    def after_credit(batch: Batch) -> Tensor:
        with torch.enable_grad():
            if source is not None:
                source.signals(batch)
        with torch.no_grad():
            own = source.answers(batch) if source is not None else None
            return stream.run(batch.inputs).logits if own is None else own

    return predict or after_credit


def with_labels(batch: Batch, labels: Tensor) -> Batch:
    """The batch with other labels, including any copy of the labels among its inputs, as numbers or one-hot."""
    own = batch.labels.double()

    def exchanged(tensor: Tensor) -> Tensor:
        if tensor.dim() == 0 or len(tensor) != len(labels):
            return tensor
        if tensor.numel() == labels.numel() and torch.equal(tensor.reshape(labels.shape).double(), own):
            return labels.to(tensor).reshape(tensor.shape)
        if tensor.dim() == 1 or labels.dim() != 1 or labels.is_floating_point():
            return tensor
        flat = tensor.flatten(1)
        start = _one_hot_start(flat, batch.labels)
        return tensor if start is None else _remarked(flat, start, batch.labels, labels).view_as(tensor)

    return Batch(each_tensor(batch.inputs, exchanged), labels)


def _one_hot_start(flat: Tensor, labels: Tensor) -> int | None:
    """The column s at which a tensor holds its labels as off + (on - off)·one-hot; None if there is none.

    Column s + c is `on` for the images of class c and `off` for all others, for every class that occurs.
    """
    classes: list[int] = sorted(set(labels.tolist()))
    whole = flat.dim() == 2 and flat.shape[1] <= max(classes, default=0) + 1
    if len(classes) < 2 or min(classes) < 0 or flat.shape[1] <= max(classes) or (len(labels) < ENOUGH and not whole):
        return None
    first = classes[0]
    inside = labels == first
    on, off = flat[inside][:1], flat[~inside][:1]
    marks = ((flat[inside] == on).all(0) & (flat[~inside] == off).all(0) & (on[0] != off[0])).nonzero().flatten()
    for column in marks.tolist():
        start = int(column) - first
        if start < 0 or start + classes[-1] >= flat.shape[1]:
            continue
        block = flat[:, [start + value for value in classes]]
        one_hot = labels[:, None] == torch.tensor(classes, device=labels.device)
        if bool((block == torch.where(one_hot, on[0, column], off[0, column])).all()):
            return start
    return None


def _remarked(flat: Tensor, start: int, labels: Tensor, others: Tensor) -> Tensor:
    """The one-hot block at `start` with other labels."""
    rows, changed = torch.arange(len(flat), device=flat.device), flat.clone()
    changed[rows, start + others] = flat[rows, start + labels]
    elsewhere = labels != others
    changed[rows[elsewhere], start + labels[elsewhere]] = flat[rows[elsewhere], start + others[elsewhere]]
    return changed


def _rows(answers: Answers, batch: Batch) -> Tensor:
    """The logits of a batch, one row per image."""
    with calling("predict", "a function of one Batch (inputs, labels) that returns logits, one row per image"):
        logits: Any = answers(batch)
    if not isinstance(logits, Tensor) or logits.dim() == 0 or len(logits) != len(batch.labels):
        shape = f"shape {tuple(logits.shape)}" if isinstance(logits, Tensor) else f"a {type(logits).__name__}"
        raise InvalidInput(
            f"predict returned {shape} for {len(batch.labels)} images.\n"
            "The answers cannot be compared image by image. Return logits, one row per image."
        )
    return logits.detach().reshape(len(batch.labels), -1)


def _sizes(rows: Tensor) -> Tensor:
    """‖·‖ of each row in float64."""
    norms: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)
    return norms
