"""Batches of arrays: states, gradients and answers that another library computed, by name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from torch import Tensor

from creditscope.auditing.array_tensors import as_tensor, real_tensor
from creditscope.auditing.input_checks import check_labels
from creditscope.batch import Batch
from creditscope.errors import InvalidInput
from creditscope.registry import did_you_mean

Reduction = Literal["sum", "mean"]
Arrays = Mapping[str, Any]
LAYERED = {"h": "states", "g": "gradients", "a": "credit"}
SINGLE = ("e", "logits", "labels")
UPDATES, BACKPROP = "updates/", "bp/"
LAYER = re.compile(r"([hga])_(0|[1-9]\d{0,5})")
FORM = (
    "Known: h_0..h_L (states), g_0..g_L (gradients), a_0..a_L (credit), logits, labels, e (∂ℓ/∂logits, for losses "
    "other than cross-entropy), updates/NAME and bp/NAME."
)


@dataclass(frozen=True, slots=True)
class ArrayBatch:
    """What a library computed for one batch, as tensors on the CPU; the samples come first in every one.

    gradients  ∂ℓ/∂h_l of each sample's own loss
    credit     a_l, empty if there is none
    error      ∂ℓ/∂logits as given; None: that of cross-entropy follows from logits and labels
    updates, backprop  what the optimiser gets, and the backprop gradient of the mean loss, by parameter name
    """

    hiddens: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]
    credit: tuple[Tensor, ...] = ()
    logits: Tensor | None = None
    labels: Tensor | None = None
    error: Tensor | None = None
    updates: dict[str, Tensor] = field(default_factory=dict)
    backprop: dict[str, Tensor] = field(default_factory=dict)

    @property
    def parts(self) -> tuple[object, ...]:
        """What every batch of one audit must have alike: the layers, and which of the other parts are there."""
        sizes = tuple(tuple(state.shape[1:]) for state in self.hiddens)
        given = (bool(self.credit), self.logits is not None, self.error is not None)
        return (sizes, *given, tuple(sorted(self.updates)), tuple(sorted(self.backprop)))


def named_arrays(parts: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of one batch under the names that a file has for them."""
    layered = {"h": "hiddens", "g": "gradients", "a": "credit"}
    names: dict[str, Any] = {}
    for letter, keyword in layered.items():
        names |= {f"{letter}_{layer}": array for layer, array in enumerate(_listed(parts[keyword], keyword))}
    for name, keyword in (("logits", "logits"), ("labels", "labels"), ("e", "errors")):
        names |= {} if parts[keyword] is None else {name: parts[keyword]}
    for prefix, keyword in ((UPDATES, "updates"), (BACKPROP, "bp")):
        names |= {prefix + name: array for name, array in _by_name(parts[keyword], keyword).items()}
    return names


def array_batch(arrays: Arrays, where: str, index: int, reduction: Reduction) -> ArrayBatch:
    """The checked batch; `where` is what an error calls it: a file, or a batch by its number."""
    _check_names(arrays, where)
    layers = {letter: _layers(arrays, letter, where) for letter in LAYERED}
    depth = len(layers["h"])
    for letter in ("h", "g"):
        if not layers[letter]:
            raise InvalidInput(
                f"{where} holds no {LAYERED[letter]} ({letter}_0, {letter}_1, ...).\n"
                f"Every diagnostic needs both the states and the gradients at them. {FORM}"
            )
    for letter in ("g", "a"):
        if layers[letter] and len(layers[letter]) != depth:
            raise InvalidInput(
                f"{where} holds {depth} states, but {LAYERED[letter]} at {len(layers[letter])} of them.\n"
                f"They could not be paired. Give {letter}_0 to {letter}_{depth - 1}, one for each state."
            )
    _check_shapes(layers, where)
    batch = ArrayBatch(
        hiddens=layers["h"],
        gradients=layers["g"],
        credit=layers["a"],
        updates=_prefixed(arrays, UPDATES, where),
        backprop=_prefixed(arrays, BACKPROP, where),
        **_answers(arrays, where, index, len(layers["h"][0])),
    )
    _check_updates(batch, where)
    return _of_own_loss(batch) if reduction == "mean" else batch


def _listed(given: Any, keyword: str) -> Sequence[Any]:
    """A list of layers; one array with the layers along its first axis would be ambiguous."""
    if given is None:
        return ()
    if not isinstance(given, list | tuple):
        raise InvalidInput(
            f"{keyword} is a {type(given).__name__}, not a list of arrays.\n"
            "Layers could not be told from samples. Pass a list with one array per state h_0..h_L."
        )
    return given


def _by_name(given: Any, keyword: str) -> Mapping[str, Any]:
    if given is not None and (not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given)):
        raise InvalidInput(
            f"{keyword} is a {type(given).__name__}, not arrays by parameter name.\n"
            "The update of a weight cannot be identified. Pass {name: array}."
        )
    return given or {}


def _check_names(arrays: Arrays, where: str) -> None:
    for name in arrays:
        known = isinstance(name, str) and (
            name in SINGLE or LAYER.fullmatch(name) or name.startswith((UPDATES, BACKPROP))
        )
        if not known:
            hint = did_you_mean(str(name), [*SINGLE, *(f"{letter}_0" for letter in LAYERED)])
            raise InvalidInput(
                f"{where} holds an array called {str(name)!r:.80}.{hint}\n"
                f"It would be left out without a word. {FORM} Leave out or rename any other one."
            )


def _layers(arrays: Arrays, letter: str, where: str) -> tuple[Tensor, ...]:
    """The arrays of one kind in order; a gap in their numbers is refused."""
    matches = [match for name in arrays if (match := LAYER.fullmatch(name)) and match[1] == letter]
    numbers = sorted(int(match[2]) for match in matches)
    if numbers != list(range(len(numbers))):
        missing = next(number for number in range(len(numbers) + 1) if number not in numbers)
        raise InvalidInput(
            f"{where} holds {letter}_{numbers[-1]} but not {letter}_{missing}.\n"
            "A layer that is left out would count two blocks as one. Give every layer, from 0 on."
        )
    return tuple(real_tensor(arrays[f"{letter}_{number}"], f"{where}: {letter}_{number}") for number in numbers)


def _check_shapes(layers: Mapping[str, Sequence[Tensor]], where: str) -> None:
    count = len(layers["h"][0])
    if not count:
        raise InvalidInput(f"{where} holds no samples.\nNothing can be measured. Leave the batch out.")
    for layer, state in enumerate(layers["h"]):
        if len(state) != count:
            raise InvalidInput(
                f"{where} holds {count:,} samples of h_0, but {len(state):,} of h_{layer}.\n"
                "A block's growth would compare different images. Give the same samples at every layer."
            )
        for letter in ("g", "a"):
            if layers[letter] and layers[letter][layer].shape != state.shape:
                raise InvalidInput(
                    f"{where}: {letter}_{layer} has shape {tuple(layers[letter][layer].shape)}, but h_{layer} has "
                    f"{tuple(state.shape)}.\nA gradient has the shape of its state. Are the layers in the same order?"
                )


def _answers(arrays: Arrays, where: str, index: int, count: int) -> dict[str, Tensor | None]:
    logits = real_tensor(arrays["logits"], f"{where}: logits") if "logits" in arrays else None
    error = real_tensor(arrays["e"], f"{where}: e") if "e" in arrays else None
    labels = as_tensor(arrays["labels"], f"{where}: labels") if "labels" in arrays else None
    if (logits is None) != (labels is None):
        given, other = ("labels", "logits") if logits is None else ("logits", "labels")
        raise InvalidInput(
            f"{where} holds {given} without {other}.\n"
            "Errors and accuracy need both. Give both, or neither and accuracy= instead."
        )
    for name, tensor in (("logits", logits), ("labels", labels), ("e", error)):
        if tensor is not None and (not tensor.dim() or len(tensor) != count):
            raise InvalidInput(
                f"{where}: {name} has shape {tuple(tensor.shape)}, but there are {count:,} samples.\n"
                "Each sample needs its own. Give them in the order of the states."
            )
    if logits is not None and labels is not None and error is None:
        check_labels(Batch(logits, labels), logits.shape[-1], index)
    if labels is not None and not labels.is_floating_point():
        labels = labels.long()
    return {"logits": logits, "labels": labels, "error": error}


def _prefixed(arrays: Arrays, prefix: str, where: str) -> dict[str, Tensor]:
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): as_tensor(arrays[name], f"{where}: {name}") for name in names}


def _check_updates(batch: ArrayBatch, where: str) -> None:
    """Refuse updates without their backprop gradients, and pairs of different shapes."""
    updates, backprop = batch.updates, batch.backprop
    if bool(updates) != bool(backprop):
        given, other = (UPDATES, BACKPROP) if updates else (BACKPROP, UPDATES)
        raise InvalidInput(
            f"{where} holds arrays {given}NAME but none {other}NAME.\n"
            "Γ^W is a cosine between the two. Give both for every parameter, or neither."
        )
    unknown = sorted(updates.keys() - backprop.keys())
    wrong = [name for name, update in updates.items() if name in backprop and update.shape != backprop[name].shape]
    if unknown or wrong:
        name = (unknown or wrong)[0]
        what = f"no {BACKPROP}{name}" if unknown else f"{BACKPROP}{name} of another shape"
        raise InvalidInput(
            f"{where} holds {UPDATES}{name}, but {what}.\n"
            "A cosine would pair unrelated numbers. Use one name and one shape for both."
        )


def _of_own_loss(batch: ArrayBatch) -> ArrayBatch:
    """The batch with gradients of each sample's own loss, where they were those of the mean loss."""
    count = len(batch.hiddens[0])
    return replace(
        batch,
        gradients=tuple(gradient * count for gradient in batch.gradients),
        error=None if batch.error is None else batch.error * count,
    )


def checked_reduction(reduction: Any) -> Reduction:
    """The reduction of a loss: "sum" or "mean"; anything else is refused."""
    if not isinstance(reduction, str) or reduction not in ("sum", "mean"):
        raise InvalidInput(
            f"reduction must be 'sum' or 'mean', got {reduction!r}.\n"
            "It says which loss the gradients are of: the sum over the samples of a batch, or their mean."
        )
    return "mean" if reduction == "mean" else "sum"
