"""Hidden backprop: does credit that is declared local carry the gradient through the weights above?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from creditscope.batch import Batch, first_images
from creditscope.credit import CreditSource
from creditscope.evidence.credit import HiddenBackprop, Layers
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

MOST_IMAGES = 64


@dataclass(frozen=True, slots=True)
class _Tolerance:
    """What counts as a move in one precision."""

    precision: Literal["float64", "single"]
    gradient: float  # a smaller move of the gradient tells nothing
    forward: float  # a larger move of the forward pass does
    repeat: float  # two calls that differ by more are not one function


FINE = _Tolerance("float64", gradient=1e-4, forward=1e-10, repeat=1e-8)
COARSE = _Tolerance("single", gradient=1e-2, forward=1e-3, repeat=1e-3)


@dataclass(frozen=True, slots=True)
class _Seen:
    """States with logits, credit and gradients under one set of weights."""

    forward: tuple[Tensor, ...]
    credit: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class _Subject:
    stream: Stream
    source: CreditSource
    loss_fn: LossFunction

    def look(self, batch: Batch, changes: Mapping[nn.Parameter, Tensor]) -> _Seen:
        """One pass and one call of the credit with the weights changed."""
        with changed(changes):
            trace = capture(self.stream, batch, self.loss_fn)
            credit = checked_signals(self.source, batch, trace)
        return _Seen((*trace.hiddens, trace.logits), credit, trace.gradients)


def hidden_backprop(
    stream: Stream,
    source: CreditSource,
    blocks: Sequence[nn.Module],
    batch: Batch,
    *,
    loss_fn: LossFunction,
    generator: torch.Generator,
) -> HiddenBackprop:
    """Change every block weight in the null space of its inputs, and see whether the credit moves as a gradient does.

    The forward pass stays. A gradient moves, because it goes through the changed weights; local credit does not.
    The model itself goes to float64, because a user's function must see it, and gets its own tensors back.
    """
    subject = _Subject(stream, source, loss_fn)
    few = first_images(batch, MOST_IMAGES)
    try:
        with in_float64(stream.model):
            return _measured(subject, blocks, as_float64(few), generator, FINE)
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError) as error:  # the model or the credit insists on its own precision
        why = f"float64 is impossible ({str(error).partition(chr(10))[0]})"
        if next(stream.model.parameters(), torch.zeros(())).dtype in (torch.float16, torch.bfloat16):
            return _not_judged(f"{why}, and half precision is too coarse")
    try:
        return _measured(subject, blocks, few, generator, COARSE)
    except (RuntimeError, TypeError, ValueError) as error:
        return _not_judged(f"{why}, and so is its own precision ({str(error).partition(chr(10))[0]})")


def _measured(
    subject: _Subject, blocks: Sequence[nn.Module], batch: Batch, generator: torch.Generator, tolerance: _Tolerance
) -> HiddenBackprop:
    weights = block_weights(blocks)
    one = _inputs(subject.stream, weights, first_images(batch, 1))
    rows = {weight: sum(map(len, parts)) for weight, parts in one.items()}
    images, movable = fitting_images(rows, len(batch.labels))
    if not movable:
        return _not_judged("no weight of the blocks has inputs that leave a direction free")
    few = first_images(batch, images)
    inputs = _inputs(subject.stream, movable, few)
    before, again = (subject.look(few, {}) for _ in range(2))
    if not _largest(before.credit, again.credit) <= tolerance.repeat:
        return _not_judged("called twice, the credit differs")
    visible = subject.look(few, {weight: random_change(weight, generator) for weight in movable})
    if not _largest(before.credit, visible.credit) > tolerance.gradient:
        return _not_judged("the credit does not change with the weights: it does not read this network")
    unseen = subject.look(few, {weight: unseen_change(weight, inputs[weight], generator) for weight in movable})
    return _compared(before, unseen, tolerance, images)


def _compared(before: _Seen, after: _Seen, tolerance: _Tolerance, images: int) -> HiddenBackprop:
    """r_l/q_l for l < L; NaN where the gradient hardly moved."""
    forward = _largest(before.forward, after.forward)
    if not forward <= tolerance.forward:
        return _not_judged(f"the forward pass moved by {forward:.1g}: the weights are used in other ways too")
    credit, gradient = (_moves(*pair) for pair in ((before.credit, after.credit), (before.gradients, after.gradients)))
    ratios: Layers = tuple(
        r / q if q >= tolerance.gradient else float("nan") for r, q in zip(credit[:-1], gradient[:-1], strict=True)
    )
    told = any(ratio == ratio for ratio in ratios)
    reason = "" if told else "no gradient moved: the weights above hardly matter to it"
    return HiddenBackprop(ratios, tolerance.precision, images, reason)


def _inputs(stream: Stream, weights: Sequence[nn.Parameter], batch: Batch) -> dict[nn.Parameter, list[Tensor]]:
    seen = Watching(weights)
    with torch.no_grad(), seen:
        stream.run(batch.inputs)
    return seen.inputs


def _moves(before: Sequence[Tensor], after: Sequence[Tensor]) -> list[float]:
    """Median over images of ‖after - before‖/‖before‖, per layer; 0 if nothing was there and nothing came."""
    return [_move(a.flatten(1).double(), b.flatten(1).double()) for a, b in zip(before, after, strict=True)]


def _largest(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """The largest move of any layer; NaN if one is."""
    moves = _moves(before, after)
    return max(moves) if all(move == move for move in moves) else float("nan")


def _move(before: Tensor, after: Tensor) -> float:
    change, size = (after - before).norm(dim=1), before.norm(dim=1)
    return torch.where(change == 0, 0.0, change / size).median().item()


def _not_judged(reason: str) -> HiddenBackprop:
    return HiddenBackprop((), reason=reason)
