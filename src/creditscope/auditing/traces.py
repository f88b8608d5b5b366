"""Yields one trace per batch, after the guards have checked the model on the first images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from torch import Tensor, nn

from creditscope.arguments import reported
from creditscope.auditing.fingerprints import Fingerprints
from creditscope.auditing.input_checks import check_labels, checked_batches
from creditscope.batch import Batch, first_images
from creditscope.errors import InvalidInput
from creditscope.progress import step
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.guards import PROBE_IMAGES, check_answers, check_gradient
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace, capture, cross_entropy


def traces(
    stream: Stream,
    batches: Iterable[Any],
    loss_fn: LossFunction | None,
    gradient_check: bool,
    guards: dict[str, Guard],
    beside: Callable[[Batch, Trace], None] = lambda batch, trace: None,
    *,
    disjoint: bool = True,
    independent: bool = True,
) -> Iterator[Trace]:
    """One trace per batch; the guards check the model on the first images before anything is measured.

    guards  receives the outcome of every guard
    beside  called with every batch and its trace; the batch is freed afterwards
    disjoint  False: batches with common samples are not refused but counted in the guard
    independent  False: answers that depend on the other images of the batch are not refused but said in the guard
    """
    classes = index = 0
    gradient, fingerprints = Guard(GuardStatus.OFF), Fingerprints(disjoint=disjoint)
    for batch in checked_batches(batches, stream.model, fingerprints):  # enumerate() would keep the last one alive
        step("measuring batches", index)
        if index == 0:
            few = first_images(batch, PROBE_IMAGES)
            with as_input_error(stream.model, batch):
                logits = stream.settle(few.inputs)
                if gradient_check:
                    answers = check_answers(stream, few, logits, independent=independent)
            classes = logits.shape[-1]
        if loss_fn is None:
            check_labels(batch, classes, index)
        with as_input_error(stream.model, batch):
            if index == 0 and gradient_check:
                gradient = check_gradient(stream, few, loss_fn or cross_entropy)
            trace = capture(stream, batch, loss_fn or cross_entropy)
            if index == 0 and not gradient_check:
                larger = len(batch.labels) > PROBE_IMAGES
                within = trace.logits[:PROBE_IMAGES] if larger else None
                answers = check_answers(stream, few, logits, within, independent=independent)
        if index == 0:
            guards.update(stream.checks(), deterministic=Guard(GuardStatus.PASSED), gradient=gradient)
            guards["independent"] = answers
        beside(batch, trace)
        yield trace
        del batch, trace
        index += 1  # noqa: SIM113
    guards["disjoint"] = fingerprints.guard()


def as_input_error(model: nn.Module, batch: Batch) -> AbstractContextManager[None]:
    """Report the model's own error on these inputs as an input error, not as a crash."""
    shape = tuple(batch.inputs.shape) if isinstance(batch.inputs, Tensor) else type(batch.inputs).__name__
    return reported(
        lambda error: InvalidInput(
            f"{type(model).__name__} cannot take inputs of shape {shape}: {type(error).__name__}: {error}\n"
            "Nothing was measured. Check that the batches are the ones this network was trained on."
        )
    )
