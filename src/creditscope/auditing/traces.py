"""Yields one trace per batch; the guards check the model on the first images before the first one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.arguments import reported
from creditscope.auditing.fingerprints import Fingerprints
from creditscope.auditing.input_checks import check_labels, checked_batches
from creditscope.batch import Batch, first_images
from creditscope.errors import InvalidInput
from creditscope.progress import step
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.gradient_check import check_gradient, failing_backward, images_needed
from creditscope.stream.guards import FEW_IMAGES, PROBE_IMAGES, check_answers
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
    """One trace per batch; the guards check the model on the first images before anything is reduced.

    The first images alone show the stream and give a first answer. The trace of the first batch settles the read rule
    and gives the second answer. Only the gradient check runs the model for itself.

    guards  receives the outcome of every guard
    beside  called with every batch and its trace; the batch is freed afterwards
    disjoint  False: batches with common samples are not refused but counted in the guard
    independent  False: answers that depend on the other images of the batch are not refused but said in the guard
    """
    classes = index = 0
    loss, fingerprints = loss_fn or cross_entropy, Fingerprints(disjoint=disjoint)
    for batch in checked_batches(batches, stream.model, fingerprints):  # enumerate() would keep the last one alive
        step("measuring batches", index)
        if index == 0:
            with as_input_error(stream.model, batch), torch.enable_grad():  # examining the stream takes its graph
                logits = stream.run(first_images(batch, FEW_IMAGES).inputs).logits.detach()
            classes = logits.shape[-1]
        if loss_fn is None:
            check_labels(batch._replace(labels=fingerprints.labels), classes, index)
        with as_input_error(stream.model, batch):
            with nullcontext() if index else failing_backward(stream.model):
                trace = capture(stream, batch, loss, settle=index == 0)
            if index == 0:
                checked_loss = loss if gradient_check else None
                guards.update(_guards(stream, batch, trace, logits, checked_loss, independent=independent))
        beside(batch, trace)
        yield trace
        del batch, trace
        fingerprints.labels = torch.zeros(0)  # nothing of a batch outlives it
        index += 1  # noqa: SIM113
    guards["disjoint"] = fingerprints.guard()


def _guards(
    stream: Stream, batch: Batch, trace: Trace, logits: Tensor, loss_fn: LossFunction | None, *, independent: bool
) -> dict[str, Guard]:
    """The outcome of the guards on the first images; without a loss the gradient is not checked.

    logits  of the first images alone; those of the trace are the second answer
    """
    few = first_images(batch, FEW_IMAGES)
    within = trace.logits[:FEW_IMAGES] if len(batch.labels) > FEW_IMAGES else None
    among = first_images(batch, PROBE_IMAGES)
    answers = check_answers(stream, few, logits, within, among=among, independent=independent)
    gradient = Guard(GuardStatus.OFF)
    if loss_fn is not None:
        gradient = check_gradient(stream, first_images(batch, images_needed(trace.hiddens)), loss_fn)
    return {
        **stream.checks(),
        "deterministic": Guard(GuardStatus.PASSED),
        "gradient": gradient,
        "independent": answers,
    }


def as_input_error(model: nn.Module, batch: Batch) -> AbstractContextManager[None]:
    """Report the model's own error on these inputs as an input error, not as a crash."""
    shape = tuple(batch.inputs.shape) if isinstance(batch.inputs, Tensor) else type(batch.inputs).__name__
    return reported(
        lambda error: InvalidInput(
            f"{type(model).__name__} cannot take inputs of shape {shape}: {type(error).__name__}: {error}\n"
            "Nothing was measured. Check that the batches are the ones this network was trained on."
        )
    )
