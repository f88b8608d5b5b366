"""Are the batches and accuracies that come in what they claim to be?"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import Batch
from creditscope.errors import InvalidInput

FINGERPRINT = 4096  # numbers of a batch's inputs that tell it from another batch


def checked_batches(batches: Iterable[Any], model: nn.Module) -> Iterator[Batch]:
    """Batches on the model's device and in its precision; none twice, none empty, at least one."""
    anchor = next(model.parameters(), torch.zeros(()))
    seen: dict[bytes, int] = {}
    for index, item in enumerate(_iterate(batches)):
        batch = _pair(item, index)
        mark = _fingerprint(batch)
        if mark in seen:
            raise InvalidInput(
                f"Batches {seen[mark]} and {index} hold the same samples.\n"
                "D4 would take repetition for agreement. Pass disjoint batches."
            )
        seen[mark] = index
        yield Batch(_placed(batch.inputs, anchor), batch.labels.to(anchor.device))
    if not seen:
        raise InvalidInput(
            "There are no batches.\nNothing can be measured. Pass an iterable of (inputs, labels) that is not exhausted."
        )


def check_labels(batch: Batch, classes: int, index: int) -> None:
    """Refuse labels that are not classes of this model."""
    labels = batch.labels
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise InvalidInput(
            f"The labels of batch {index} are {labels.dtype}, not class numbers.\n"
            "Cross-entropy and accuracy need integers. Pass class indices, or loss_fn= for another task."
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InvalidInput(
            f"Batch {index} has labels from {low} to {high}, but the model has {classes} classes (0 to {classes - 1}).\n"
            "The loss would be that of other classes. Check the labels and the read-out."
        )


def checked_accuracies(given: float | Sequence[float] | None, what: str) -> tuple[float, ...] | None:
    """One share per seed; 31 instead of 0.31 is refused."""
    if given is None:
        return None
    values = (given,) if isinstance(given, int | float) else tuple(float(value) for value in given)
    if not values:
        raise InvalidInput(f"{what} is an empty list.\nLeave it out if it was not measured.")
    for value in values:
        if not (math.isnan(value) or 0 <= value <= 1):
            raise InvalidInput(
                f"{what} = {value:g} is not a share between 0 and 1.\n"
                f"D3 would be wrong by a factor of 100. Did you mean {value / 100:g}?"
            )
    return tuple(float(value) for value in values)


def _iterate(batches: Iterable[Any]) -> Iterator[Any]:
    if isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        raise InvalidInput(
            f"batches is a {type(batches).__name__}, not an iterable of (inputs, labels).\nPass [(inputs, labels), ...]."
        )
    return iter(batches)


def _pair(item: Any, index: int) -> Batch:
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InvalidInput(
            f"Batch {index} is a {type(item).__name__}"
            f"{f' of {len(item)}' if isinstance(item, tuple | list) else ''}, not a pair (inputs, labels).\n"
            "Pass an iterable of pairs; one pair alone must stand in a list: [(inputs, labels)]."
        )
    inputs, labels = item
    labels = torch.as_tensor(labels)
    lead = _first(inputs)
    if lead is None or labels.dim() == 0 or len(lead) != len(labels) or len(labels) == 0:
        shape = "no tensor" if lead is None else tuple(lead.shape)
        raise InvalidInput(
            f"Batch {index} has inputs of shape {shape} and labels of shape {tuple(labels.shape)}.\n"
            "Each sample needs its label. Both must have the same length, at least 1."
        )
    return Batch(inputs, labels)


def _first(inputs: Any) -> Tensor | None:
    """The first tensor with a batch axis in whatever a model takes."""
    if isinstance(inputs, Tensor):
        return inputs if inputs.dim() else None
    values = inputs.values() if isinstance(inputs, dict) else inputs if isinstance(inputs, tuple | list) else ()
    return next((found for value in values if (found := _first(value)) is not None), None)


def _placed(inputs: Any, anchor: Tensor) -> Any:
    """Inputs on the model's device, floating-point ones in its precision."""
    if isinstance(inputs, Tensor):
        return inputs.to(anchor.device, anchor.dtype) if inputs.is_floating_point() else inputs.to(anchor.device)
    if isinstance(inputs, dict):
        return {key: _placed(value, anchor) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return type(inputs)(_placed(value, anchor) for value in inputs)
    return inputs


def _fingerprint(batch: Batch) -> bytes:
    """A few thousand of the inputs' numbers and all labels: the same for the same batch, and hardly for another."""
    lead = _first(batch.inputs)
    flat = lead.detach().flatten() if lead is not None else torch.zeros(0)
    some = flat[:: max(1, len(flat) // FINGERPRINT)]
    digest = hashlib.blake2b(digest_size=16)
    for part in (some.float(), batch.labels):
        digest.update(str(tuple(part.shape)).encode() + part.cpu().contiguous().numpy().tobytes())
    return digest.digest()
