"""A model is measured without being changed: weights, gradients, modules and hooks are kept, compared and put back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import CellType
from typing import Any

import numpy
import torch
from torch import Tensor, nn

from creditscope.errors import CreditscopeError, ModelChanged

NAMED = 5  # changes that an error lists
HOOKS = {
    "_forward_hooks": "forward hooks",
    "_forward_pre_hooks": "forward hooks",
    "_backward_hooks": "backward hooks",
    "_backward_pre_hooks": "backward hooks",
}
MEMBERS = {"_modules": "modules", "_parameters": "parameters", **HOOKS}
WORDS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes: numbers read as their bits


@dataclass(frozen=True, slots=True)
class _Kept:
    """A tensor as it was. Every bit is compared: what is written through `.data` or NumPy leaves no other trace."""

    tensor: Tensor
    data: Tensor  # the same storage; keeps it alive if the tensor gets another one
    copy: Tensor

    @classmethod
    def of(cls, tensor: Tensor) -> _Kept:
        return cls(tensor, tensor.data, tensor.detach().clone())

    def restore(self) -> bool:
        """Put the tensor back; whether its bits had changed."""
        moved = self.tensor.data_ptr() != self.data.data_ptr() or self.tensor.shape != self.data.shape
        if moved:
            self.tensor.data = self.data
        if _same_bits(self.tensor, self.copy):
            return moved
        with torch.no_grad():
            self.tensor.copy_(self.copy)
        return True


class _Model:
    """The modules, hooks, parameters and gradients of a model, by name."""

    def __init__(self, model: nn.Module) -> None:
        self._members = [
            (name, part, getattr(module, part), dict(getattr(module, part)))
            for name, module in model.named_modules()
            for part in MEMBERS
        ]
        named = list(model.named_parameters())
        self._weights = {name: (_Kept.of(p), p.requires_grad) for name, p in named}
        self._gradients = {name: (p, p.grad, None if p.grad is None else _Kept.of(p.grad)) for name, p in named}

    def restore(self) -> list[str]:
        """Put everything back; what had changed, in words."""
        changed = []
        for name, part, now, before in self._members:
            if (_lost_or_repeated if part in HOOKS else _differ)(now, before):
                now.clear()
                now.update(before)
                changed.append(f"the {MEMBERS[part]} of {name or 'the model itself'}")
        for name, (kept, wanted) in self._weights.items():
            if kept.restore():
                changed.append(f"the weight {name}")
            if kept.tensor.requires_grad is not wanted:
                kept.tensor.requires_grad_(wanted)
                changed.append(f"requires_grad of {name}")
        for name, (parameter, gradient, value) in self._gradients.items():
            other = parameter.grad is not gradient
            parameter.grad = gradient
            if (value is not None and value.restore()) or other:
                changed.append(f"the gradient of {name}")
        return changed


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Put weights, gradients, modules and hooks back after the block; an error says which of them it had changed.

    Buffers are not compared: they are a layer's own memory, and `undisturbed` restores them. A hook that is added once
    stays: models of transformers install theirs in their first call and remember that they have.
    """
    kept = _Model(model)
    try:
        yield
    except CreditscopeError as error:
        _refuse(model, kept.restore(), error)
        raise
    except BaseException:
        kept.restore()
        raise
    _refuse(model, kept.restore(), None)


def _refuse(model: nn.Module, changed: list[str], error: CreditscopeError | None) -> None:
    if not changed:
        return
    more = f" and {len(changed) - NAMED} more" if len(changed) > NAMED else ""
    raise ModelChanged(
        f"{type(model).__name__} was changed while it was measured: {', '.join(changed[:NAMED])}{more}.\n"
        "The numbers would belong to several networks. The model has been put back. Does its forward pass normalise, "
        "step or replace its own weights, or does a function that was passed in? Do that outside of them."
    ) from error


def _differ(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    same = len(now) == len(before) and all(key in now and now[key] is value for key, value in before.items())
    return not same


def _lost_or_repeated(now: Mapping[Any, Any], before: Mapping[Any, Any]) -> bool:
    """Whether hooks are gone, or the same one was added more than once."""
    if not now:
        return bool(before)
    if any(now.get(key) is not hook for key, hook in before.items()):
        return True
    added = [_code(hook) for key, hook in now.items() if key not in before]
    return len(set(added)) < len(added)


def _code(hook: Any) -> tuple[Any, ...]:
    """What tells two hooks apart: their code and the values that it is bound to."""
    cells = [cell for cell in getattr(hook, "__closure__", None) or () if cell != CellType()]  # an empty one has none
    bound = [id(getattr(hook, "__self__", None)), *(id(cell.cell_contents) for cell in cells)]
    return getattr(hook, "__code__", type(hook)), *bound


def _same_bits(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors hold the same bytes: a NaN is equal to itself here, and -0.0 is not +0.0."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    left, right = (t.detach().contiguous().reshape(-1) for t in (one, other))
    if type(left) is type(right) is Tensor and left.is_cpu and right.is_cpu:  # NumPy compares six times as fast
        return numpy.array_equal(_words(left), _words(right))
    word = WORDS.get(left.element_size(), torch.uint8)
    return torch.equal(left.view(word), right.view(word))


def _words(flat: Tensor) -> Any:
    """The bytes of a flat tensor, eight at a time where they come out even."""
    data = flat.view(torch.uint8).numpy()
    return data if len(data) % 8 else data.view(numpy.int64)
