"""Checks of the batches, labels, accuracies, texts and limits that a user passes in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.auditing.fingerprints import Fingerprints
from creditscope.batch import Batch, each_tensor, tensors_in
from creditscope.diagnostics import diagnostics
from creditscope.errors import InvalidInput, UnknownName
from creditscope.registry import unknown
from creditscope.statistics.shares import checked_shares

LARGEST = sys.float_info.max


def checked_batches(
    batches: Iterable[Any], model: nn.Module, fingerprints: Fingerprints | None = None
) -> Iterator[Batch]:
    """Batches on the model's device and in its precision; overlapping or empty batches, or none at all, are refused.

    Only one batch is kept: it is freed before the next one is fetched.
    """
    anchor = next((tensor for tensor in model.parameters() if tensor.is_floating_point()), torch.zeros(()))
    fingerprints = fingerprints or Fingerprints()
    count = 0
    for item in _iterate(batches):
        batch = _pair(item, count)
        fingerprints.add(batch)
        count += 1
        yield _placed(batch, anchor)
        del item, batch
    if not count:
        raise InvalidInput(
            "There are no batches.\n"
            "Nothing can be measured. Pass an iterable of (inputs, labels); is yours already exhausted?"
        )


def check_labels(batch: Batch, classes: int, index: int) -> None:
    """Refuse labels that are not one class of this model per sample."""
    labels = batch.labels
    if labels.is_floating_point() or labels.dtype == torch.bool:
        raise InvalidInput(
            f"The labels of batch {index} are {labels.dtype}, not class numbers.\n"
            "Cross-entropy and accuracy need integers. Pass class indices, or loss_fn= for another task."
        )
    if labels.dim() != 1:
        raise InvalidInput(
            f"The labels of batch {index} have shape {tuple(labels.shape)}, not one class number per sample.\n"
            "Cross-entropy would pair logits and labels wrongly. Pass shape (N,), or loss_fn= for another task."
        )
    low, high = torch.stack(labels.aminmax()).tolist()
    if low < 0 or high >= classes:
        raise InvalidInput(
            f"Batch {index} has labels from {low} to {high}, but the model has {classes} classes "
            f"(0 to {classes - 1}).\n"
            "The loss would be computed for the wrong classes. Check the labels and the read-out."
        )


def checked_accuracies(given: float | Sequence[float] | None, what: str) -> tuple[float, ...] | None:
    """One share per seed; 31 instead of 0.31 is refused. NaN passes: it is the accuracy of a run that diverged."""
    if given is None:
        return None
    single = isinstance(given, int | float | str) or getattr(given, "ndim", None) == 0
    listed: Any = given
    try:
        several = (listed,) if single else tuple(listed)
    except TypeError as error:
        raise InvalidInput(
            f"{what} = {given!r} is not a number.\nD3 needs shares of correct answers. Pass one, or one per seed."
        ) from error
    if not several:
        raise InvalidInput(
            f"{what} is an empty list.\nD3 would have nothing to compare. Leave it out if it was not measured."
        )
    return checked_shares(several, what, nan=True)


def checked_images(count: int | None) -> int | None:
    """The number of test images behind an accuracy; what is not a whole number of at least 1 is refused."""
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise InvalidInput(
            f"accuracy_images must be a whole number of at least 1, got {count!r}.\n"
            "The images' error would be wrong. Pass the number of test images, or leave it out."
        )
    return count


REFUSED: dict[str, Callable[[Tensor], bool]] = {  # by what they are, and why they cannot be measured
    "sparse": lambda t: t.layout is not torch.strided and t.layout is not torch.jagged,
    "nested": lambda t: t.is_nested,
    "masked": lambda t: type(t).__name__ == "MaskedTensor",
    "quantised": lambda t: t.is_quantized,
    "on the device meta, without numbers": lambda t: t.is_meta,
}


def check_tensor(tensor: Tensor, what: str) -> None:
    """Refuse a tensor that does not hold one number in each place."""
    for kind, applies in REFUSED.items():
        if applies(tensor):
            raise InvalidInput(
                f"{what} are {kind}.\n"
                "States and gradients would not be those of plain numbers. Pass dense tensors, as to_dense() or "
                "to_padded_tensor() make them."
            )


def _plain(tensor: Tensor) -> Tensor:
    """The numbers themselves, where a tensor only carries a mark that they are to be negated or conjugated."""
    return tensor.resolve_conj().resolve_neg()


def _iterate(batches: Iterable[Any]) -> Iterator[Any]:
    iterable = isinstance(batches, Iterable) and not isinstance(batches, Tensor)
    if not iterable or getattr(batches, "shape", None) == ():  # an array without dimensions only looks like one
        raise InvalidInput(
            f"batches is a {type(batches).__name__}, not an iterable of (inputs, labels).\n"
            "Inputs cannot be told from labels. Pass [(inputs, labels), ...]."
        )
    return iter(batches)


def _pair(item: Any, index: int) -> Batch:
    if isinstance(item, Mapping) and "labels" in item:  # as data collators return it
        item = {key: value for key, value in item.items() if key != "labels"}, item["labels"]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise InvalidInput(
            f"Batch {index} is a {type(item).__name__}"
            f"{f' of {len(item)}' if isinstance(item, tuple | list) else ''}, not a pair (inputs, labels).\n"
            "Pass an iterable of pairs, or of dicts with the key 'labels'; wrap a single pair in a list: "
            "[(inputs, labels)]."
        )
    inputs, labels = dict(item[0]) if isinstance(item[0], Mapping) else item[0], item[1]
    try:
        labels = torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInput(
            f"The labels of batch {index} are a {type(labels).__name__} that cannot be converted to a tensor.\n"
            "Accuracy and loss need class numbers. Pass a tensor of integers."
        ) from error
    for tensor in _every_tensor(inputs):
        check_tensor(tensor, f"The inputs of batch {index}")
    check_tensor(labels, f"The labels of batch {index}")
    inputs, labels = each_tensor(inputs, _plain), _plain(labels)
    lead = next(tensors_in(inputs), None)
    if lead is None or labels.dim() == 0 or len(lead) != len(labels) or len(labels) == 0:
        shape = f"type {type(inputs).__name__} without a tensor" if lead is None else f"shape {tuple(lead.shape)}"
        raise InvalidInput(
            f"Batch {index} has inputs of {shape} and labels of shape {tuple(labels.shape)}.\n"
            "Each sample needs its label. Both must be tensors of the same length, at least 1."
        )
    return Batch(inputs, labels)


def _every_tensor(inputs: Any) -> Iterator[Tensor]:
    if isinstance(inputs, Tensor):
        yield inputs
    elif isinstance(inputs, dict | tuple | list):
        for value in inputs.values() if isinstance(inputs, dict) else inputs:
            yield from _every_tensor(value)


def _placed(batch: Batch, anchor: Tensor) -> Batch:
    """The batch on the model's device, floating-point inputs in its precision, class numbers in int64."""

    def place(tensor: Tensor) -> Tensor:
        moved = tensor.to(anchor.device, anchor.dtype) if tensor.is_floating_point() else tensor.to(anchor.device)
        return moved.clone() if moved.is_inference() else moved  # autograd cannot save inference tensors

    labels = batch.labels.to(anchor.device)
    if not labels.is_floating_point() and labels.dtype != torch.bool:
        labels = labels.long()
    return Batch(each_tensor(batch.inputs, place), labels.clone() if labels.is_inference() else labels)


def checked_limits(thresholds: Mapping[str, float] | None) -> dict[str, float]:
    """The user's own limits by code; an unknown code or a limit that is not a finite number is refused."""
    if thresholds is not None and not isinstance(thresholds, Mapping):
        raise InvalidInput(
            f"thresholds is a {type(thresholds).__name__}, not a table of limits by code.\n"
            'It is not clear which diagnostic is meant. Pass, for example, {"D1": 100}.'
        )
    for code, at in (thresholds or {}).items():
        if code not in diagnostics or ":" in code:
            raise UnknownName(unknown("diagnostic", code, [name for name in diagnostics if ":" not in name]))
        if isinstance(at, bool) or not isinstance(at, int | float) or not -LARGEST < at < LARGEST:
            raise InvalidInput(
                f"The threshold of {code} is {at!r}.\n"
                "Either nothing or everything lies beyond such a limit. Pass a finite number."
            )
    return dict(thresholds or {})
