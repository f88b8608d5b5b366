"""Label leak: do the answers change when other labels are handed in?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from creditscope.batch import Batch, each_tensor
from creditscope.credit import CreditSource
from creditscope.evidence.credit import LabelLeak
from creditscope.stream.states import Stream

MOVED = 1e-3  # of the norm of an image's logits

Answers = Callable[[Batch], Tensor]


def label_leak(answers: Answers, batches: Iterable[Batch], generator: torch.Generator) -> LabelLeak:
    """Share of images whose answer changes when the labels are permuted, over the images that got another label.

    An answer changes when the logits move beyond rounding, or when the prediction does.

    Asked twice with the same labels, the answers must agree: else nothing could be concluded.
    """
    moved = flipped = images = 0
    for batch in batches:
        other = with_labels(batch, batch.labels[torch.randperm(len(batch.labels), generator=generator)])
        true, again, permuted = (
            answers(given).detach().reshape(len(batch.labels), -1) for given in (batch, batch, other)
        )
        if not bool(true.isfinite().all()):
            return LabelLeak(float("nan"), reason="the answers are not finite")
        changed = (batch.labels != other.labels).view(len(true), -1).any(1)
        if bool((_moved(true, again) | _flipped(true, again)).any()):
            return LabelLeak(float("nan"), reason="asked twice with the same labels, the method answers differently")
        flips = _flipped(true, permuted) & changed
        moved += int((_moved(true, permuted) & changed | flips).sum())
        flipped += int(flips.sum())
        images += int(changed.sum())
    if not images:
        return LabelLeak(float("nan"), reason="all images have the same label: there is none to exchange it for")
    return LabelLeak(moved / images, flipped, images)


def answers_of(stream: Stream, source: CreditSource | None, predict: Answers | None) -> Answers:
    """How the method answers: the user's own function, the source's inference phase, or the network itself.

    The network answers after the credit was computed: an inference phase that leaves labels behind in it shows.
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
    """The batch with other labels, also where its inputs hold a copy of them."""

    def exchanged(tensor: Tensor) -> Tensor:
        same = tensor.shape == batch.labels.shape and torch.equal(tensor.to(batch.labels), batch.labels)
        return labels.to(tensor) if same else tensor

    return Batch(each_tensor(batch.inputs, exchanged), labels)


def _flipped(before: Tensor, after: Tensor) -> Tensor:
    """Which rows are another prediction."""
    return before.argmax(1) != after.argmax(1)


def _moved(before: Tensor, after: Tensor) -> Tensor:
    """Which rows moved by more than rounding can."""
    change: Tensor = torch.linalg.vector_norm(after - before, dim=1, dtype=torch.float64)
    size: Tensor = torch.linalg.vector_norm(before, dim=1, dtype=torch.float64)
    return ~(change <= MOVED * size)
