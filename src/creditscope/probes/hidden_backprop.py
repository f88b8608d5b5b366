"""Hidden backprop: changes weights where the forward pass cannot notice, and measures whether credit changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from creditscope.batch import Batch, first_images
from creditscope.credit import CreditSource
from creditscope.errors import FunctionFailed
from creditscope.evidence.credit import HiddenBackprop, Layers
from creditscope.machine import machine_error
from creditscope.probes.block_weights import (
    Watching,
    block_weights,
    changed,
    fitting_images,
    random_change,
    unseen_change,
)
from creditscope.probes.source import checked_signals
from creditscope.stream.isolation import as_float64, in_float64
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, capture
from creditscope.verdict import Missing, Reason

MOST_IMAGES = 64


@dataclass(frozen=True, slots=True)
class _Tolerance:
    """What counts as a change in one precision."""

    precision: Literal["float64", "single"]
    gradient: float  # a smaller change of the gradient is not conclusive
    forward: float  # a larger change of the forward pass is not rounding
    repeat: float  # credit that differs by more between two calls is not deterministic


FINE = _Tolerance("float64", gradient=1e-4, forward=1e-10, repeat=1e-8)
COARSE = _Tolerance("single", gradient=1e-2, forward=1e-3, repeat=1e-3)


@dataclass(frozen=True, slots=True)
class _Signals:
    """States with logits, credit and gradients under one set of weights."""

    forward: tuple[Tensor, ...]
    credit: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class _Subject:
    stream: Stream
    source: CreditSource
    loss_fn: LossFunction

    def measure(self, batch: Batch, changes: Mapping[nn.Parameter, Tensor]) -> _Signals:
        """One pass and one call of the credit with the weights changed."""
        with changed(changes):
            trace = capture(self.stream, batch, self.loss_fn)
            credit = checked_signals(self.source, batch, trace)
        return _Signals((*trace.hiddens, trace.logits), credit, trace.gradients)


def hidden_backprop(
    stream: Stream,
    source: CreditSource,
    blocks: Sequence[nn.Module],
    batch: Batch,
    *,
    loss_fn: LossFunction,
    generator: torch.Generator,
) -> HiddenBackprop | Missing:
    """Change every block weight in the null space of its inputs, and compare the changes of credit and gradient.

    The forward pass stays the same. The gradient changes, because it passes through the changed weights; local credit
    does not. The model itself is converted to float64, because a user's function reads it, and restored afterwards.
    """
    subject = _Subject(stream, source, loss_fn)
    few = first_images(batch, MOST_IMAGES)
    try:
        with in_float64(stream.model):
            return _measured(subject, blocks, as_float64(few), generator, FINE)
    except (FunctionFailed, RuntimeError, TypeError, ValueError) as error:  # something requires its own precision
        if machine_error(error) is not None:
            raise
        why = f"float64 is impossible ({str(error).partition(chr(10))[0]})"
        if next(stream.model.parameters(), torch.zeros(())).dtype in (torch.float16, torch.bfloat16):
            return _not_judged(f"{why}, and half precision is too coarse")
    try:
        return _measured(subject, blocks, few, generator, COARSE)
    except (FunctionFailed, RuntimeError, TypeError, ValueError) as error:
        if machine_error(error) is not None:
            raise
        return _not_judged(f"{why}, and so is its own precision ({str(error).partition(chr(10))[0]})")


def _measured(
    subject: _Subject, blocks: Sequence[nn.Module], batch: Batch, generator: torch.Generator, tolerance: _Tolerance
) -> HiddenBackprop | Missing:
    weights = block_weights(blocks)
    one = _inputs(subject.stream, weights, first_images(batch, 1))
    if not one:
        return _not_judged("no block weight has inputs that leave a direction free")
    rows = {weight: sum(map(len, parts)) for weight, parts in one.items()}
    images, movable = fitting_images(rows, len(batch.labels))
    few = first_images(batch, images or 1)
    before, again = (subject.measure(few, {}) for _ in range(2))
    if not _largest(before.credit, again.credit) <= tolerance.repeat:
        return _not_judged("the credit differs between two identical calls")
    visible = subject.measure(few, {weight: random_change(weight, generator) for weight in one})
    if not _largest(before.credit, visible.credit) > tolerance.gradient:
        still: Layers = (0.0,) * (len(before.credit) - 1)
        return HiddenBackprop(still, tolerance.precision, len(few.labels), reads_network=False)
    if not movable:
        return _not_judged("no block weight has inputs that leave a direction free")
    inputs = _inputs(subject.stream, movable, few)
    unseen = subject.measure(few, {weight: unseen_change(weight, inputs[weight], generator) for weight in movable})
    return _compared(before, unseen, tolerance, images)


def _compared(before: _Signals, after: _Signals, tolerance: _Tolerance, images: int) -> HiddenBackprop | Missing:
    """r_l/q_l for l < L; NaN where the gradient hardly changed."""
    forward = _largest(before.forward, after.forward)
    if not forward <= tolerance.forward:
        return _not_judged(f"the forward pass changed by {forward:.1g}: the weights have other uses too")
    credit, gradient = (
        _changes(*pair) for pair in ((before.credit, after.credit), (before.gradients, after.gradients))
    )
    ratios: Layers = tuple(
        r / q if q >= tolerance.gradient else float("nan") for r, q in zip(credit[:-1], gradient[:-1], strict=True)
    )
    return HiddenBackprop(ratios, tolerance.precision, images)


def _inputs(stream: Stream, weights: Sequence[nn.Parameter], batch: Batch) -> dict[nn.Parameter, list[Tensor]]:
    watching = Watching(weights)
    with torch.no_grad(), watching:
        stream.run(batch.inputs)
    return watching.inputs


def _changes(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[float]:
    """Median over images of ‖after - before‖/‖before‖, per layer; 0 where nothing changed."""
    return [_change(a.flatten(1).double(), b.flatten(1).double()) for a, b in zip(before, after, strict=True)]


def _largest(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """The largest change of any layer; NaN if one is."""
    changes = _changes(before, after)
    return max(changes) if all(change == change for change in changes) else float("nan")


def _change(before: Tensor, after: Tensor) -> float:
    change, size = (after - before).norm(dim=1), before.norm(dim=1)
    return torch.where(change == 0, 0.0, change / size).median().item()


def _not_judged(text: str) -> Missing:
    return Missing(Reason.NOT_POSSIBLE, text)
