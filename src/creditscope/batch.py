"""Batches: inputs with labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

PUBLISHED_BATCH = 128  # the batch whose mean loss the published gradient norms and clamped cosines refer to


class Batch(NamedTuple):
    """Inputs (a tensor (N, ...), or a tuple or dict of tensors for models that take several) and labels (N,).

    >>> import creditscope, torch
    >>> batch = creditscope.Batch(torch.zeros(4, 6), torch.tensor([0, 1, 2, 0]))
    >>> inputs, labels = batch
    >>> len(labels)
    4
    """

    inputs: Any
    labels: Tensor


def each_tensor(inputs: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The same inputs with every tensor in them changed; what is not a tensor stays."""
    from torch import Tensor

    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, dict):
        return {key: each_tensor(value, change) for key, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        values = [each_tensor(value, change) for value in inputs]
        return type(inputs)(*values) if hasattr(inputs, "_fields") else type(inputs)(values)
    return inputs


def tensors_in(inputs: Any) -> Iterator[Tensor]:
    """The tensors with an axis among the inputs of a model."""
    from torch import Tensor

    if isinstance(inputs, Tensor):
        if inputs.dim():
            yield inputs
    elif isinstance(inputs, dict | tuple | list):
        for value in inputs.values() if isinstance(inputs, dict) else inputs:
            yield from tensors_in(value)


def first_images(batch: Batch, count: int) -> Batch:
    """Copies of the first samples of a batch: a view would keep the whole batch alive."""
    return Batch(each_tensor(batch.inputs, lambda tensor: tensor[:count].clone()), batch.labels[:count].clone())
