"""Label leak: compares the answers of a method under its own labels and under permuted ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from creditscope.batch import Batch, each_tensor
from creditscope.credit import CreditSource
from creditscope.evidence.credit import LabelLeak
from creditscope.stream.states import Stream
from creditscope.verdict import Missing, Reason

MOVED = 1e-3  # of the norm of an image's logits

Answers = Callable[[Batch], Tensor]


def label_leak(answers: Answers, batches: Iterable[Batch], generator: torch.Generator) -> LabelLeak | Missing:
    """Share of images whose answer changes when the labels are permuted, over the images that got another label.

    An answer changes when the logits change by more than rounding, or when the prediction changes. With the same labels
    two answers must agree, or no conclusion is possible.
    """
    moved = flipped = images = 0
    for batch in batches:
        other = with_labels(batch, batch.labels[torch.randperm(len(batch.labels), generator=generator)])
        true, again, permuted = (
            answers(given).detach().reshape(len(batch.labels), -1) for given in (batch, batch, other)
        )
        if not bool(true.isfinite().all()):
            return Missing(Reason.NOT_POSSIBLE, "the answers are not finite")
        changed = (batch.labels != other.labels).view(len(true), -1).any(1)
        if bool((_moved(true, again) | _flipped(true, again)).any()):
            return Missing(Reason.NOT_POSSIBLE, "with the same labels the method answers differently the second time")
        flips = _flipped(true, permuted) & changed
        moved += int((_moved(true, permuted) & changed | flips).sum())
        flipped += int(flips.sum())
        images += int(changed.sum())
    if not images:
        return Missing(Reason.NOT_POSSIBLE, "all images have the same label, so that none can be exchanged")
    return LabelLeak(moved / images, flipped, images)


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
    """The batch with other labels, including any copy of the labels among its inputs."""

    def exchanged(tensor: Tensor) -> Tensor:
        same = tensor.shape == batch.labels.shape and torch.equal(tensor.to(batch.labels), batch.labels)
        return labels.to(tensor) if same else tensor

    return Batch(each_tensor(batch.inputs, exchanged), labels)


def _flipped(before: Tensor, after: Tensor) -> Tensor:
    """Which rows have another prediction."""
    return before.argmax(1) != after.argmax(1)


def _moved(before: Tensor, after: Tensor) -> Tensor:
    """Which rows changed by more than rounding."""
    change: Tensor = torch.linalg.vector_norm(after - before, dim=1, dtype=torch.float64)
    size: Tensor = torch.linalg.vector_norm(before, dim=1, dtype=torch.float64)
    return ~(change <= MOVED * size)
