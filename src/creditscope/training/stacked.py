"""A tensor of several runs at once: code written for one run computes all of them, each as if it were alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from creditscope.training.batched import DESCRIPTIONS, ELEMENTWISE, READINGS, TOGETHER

RUN_BY_RUN = frozenset({"cpu"})  # devices on which a function without a batched kernel of its own keeps its bits
NOTHING = torch.empty(0)  # the memory of every stack itself, which is never used
IN_PLACE = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")


class Unstackable(Exception):
    """The runs of a stack would go separate ways, for example because a number of each decides what comes next."""


class Stacked(Tensor):
    """Tensors of K runs that look like one of them: `together` is (K, ...) where this one says that it is (...).

    Every function of PyTorch is computed for each run by itself: products, elementwise functions and gradients for all
    of them by one kernel, with the bits of the single run; on the CPU any other function run by run, with the same
    bits, and elsewhere by `torch.vmap`. What is read as a number must be the same in every run.
    """

    together: Tensor

    @staticmethod
    def __new__(cls, together: Tensor) -> Stacked:
        """The stack around (K, ...)."""
        made: Stacked = Tensor._make_subclass(cls, NOTHING)
        made.together = together
        return made

    @classmethod
    def of(cls, tensors: Sequence[Tensor], *, learns: bool = False) -> Stacked:
        """One tensor of each run, in new memory; `learns`: gradients are asked for by it."""
        return cls(torch.stack([tensor.detach() for tensor in tensors]).requires_grad_(learns))

    @property
    def each(self) -> tuple[Tensor, ...]:
        """The tensor of every run, plain, in the memory of the stack and in its graph."""
        return self.together.unbind(0)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        call = _Call(func, args, kwargs)
        if func in DESCRIPTIONS:
            return call.of_one(leaf.together.detach()[0] if isinstance(leaf, cls) else leaf for leaf in call.leaves)
        if "memory_format" not in kwargs:
            if func in ELEMENTWISE:
                return call.returned(func(*_aligned(args), **kwargs))
            if func in TOGETHER and call.whole:
                found = TOGETHER[func](*_together(args), **_together(kwargs))
                if found is not NotImplemented:
                    return call.returned(found)
        return call.returned(call.mapped() if call.maps else call.one_by_one())


class Numbers:
    """A plain number of each run, for example its penalty; where it meets a stack it takes its type."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = tuple(values)
        self._tensors: dict[tuple[torch.dtype, torch.device], Stacked] = {}

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, Stacked):
            kind = (other.dtype, other.device)
            if kind not in self._tensors:  # made once: it has to be sent to the device
                self._tensors[kind] = Stacked(torch.tensor(self._values, dtype=kind[0], device=kind[1]))
            return other * self._tensors[kind]
        return Numbers([value * other for value in self._values])

    __rmul__ = __mul__

    def __truediv__(self, other: float) -> Numbers:
        return Numbers([value / other for value in self._values])

    def __bool__(self) -> bool:
        return any(self._values)


class _Call:
    """A call of a function with stacks among its arguments."""

    def __init__(self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.func = func
        self.leaves, self.form = tree_flatten((args, kwargs))
        self.stacks = [index for index, leaf in enumerate(self.leaves) if isinstance(leaf, Stacked)]

    @property
    def whole(self) -> bool:
        """Whether every tensor among the arguments is a stack."""
        return all(isinstance(leaf, Stacked) for leaf in self.leaves if isinstance(leaf, Tensor))

    @property
    def maps(self) -> bool:
        """Whether `torch.vmap` computes it: a function of PyTorch that returns tensors."""
        ours = not (getattr(self.func, "__module__", None) or "torch").startswith("torch")
        device = self.leaves[self.stacks[0]].together.device.type
        return not ours and self.func not in READINGS and device not in RUN_BY_RUN

    @property
    def name(self) -> str:
        """That of the function."""
        return getattr(self.func, "__name__", repr(self.func))

    @property
    def in_place(self) -> bool:
        """Whether the function changes its first argument and returns it."""
        return self.name in IN_PLACE or (self.name.endswith("_") and not self.name.endswith("__"))

    def returned(self, found: Any) -> Any:
        """The result as stacks; of a function that works in place its first argument."""
        if self.in_place:
            return self.leaves[0]
        return tree_map(lambda part: Stacked(part) if isinstance(part, Tensor) else part, found)

    def of_one(self, leaves: Iterator[Any]) -> Any:
        """The function of other arguments of the same form."""
        args, kwargs = tree_unflatten(list(leaves), self.form)
        return self.func(*args, **kwargs)

    def one_by_one(self) -> Any:
        """The function of each run, the results stacked; one that is no tensor must be the same in every run."""
        members = {index: self.leaves[index].each for index in self.stacks}
        count = len(next(iter(members.values())))
        found = [
            self.of_one(members[index][number] if index in members else leaf for index, leaf in enumerate(self.leaves))
            for number in range(count)
        ]
        flat = [tree_flatten(one) for one in found]
        return tree_unflatten(
            [self._joined(parts) for parts in zip(*(one for one, _ in flat), strict=True)], flat[0][1]
        )

    def _joined(self, parts: Sequence[Any]) -> Any:
        if isinstance(parts[0], Tensor):
            return None if self.in_place else _stack(parts)
        if any(part != parts[0] for part in parts[1:]):
            raise Unstackable(f"{self.name} gave {parts[0]!r} in one run and something else in another")
        return parts[0]

    def mapped(self) -> Any:
        """The function under `torch.vmap`, which has one kernel for all runs where PyTorch knows one."""

        def of_one(*own: Tensor) -> Any:
            filled = dict(zip(self.stacks, own, strict=True))
            return self.of_one(filled.get(index, leaf) for index, leaf in enumerate(self.leaves))

        return torch.vmap(of_one)(*(self.leaves[index].together for index in self.stacks))


def _stack(parts: Sequence[Tensor]) -> Tensor:
    """Tensors of the runs as one, each in the memory layout that it had: products and convolutions round by it."""
    strides: Sequence[int] = parts[0].stride()
    order = sorted(range(len(strides)), key=lambda axis: -strides[axis])
    if order == list(range(len(strides))):
        return torch.stack(list(parts))
    back = [1 + order.index(axis) for axis in range(len(order))]
    return torch.stack([part.permute(order) for part in parts]).permute(0, *back)


def _together(tree: Any) -> Any:
    return tree_map(lambda leaf: leaf.together if isinstance(leaf, Stacked) else leaf, tree)


def _aligned(args: Sequence[Any]) -> Iterator[Any]:
    """Operands with their stack as the first axis and axes of length 1 after it, so that they broadcast as one run's.

    A run's single number takes the type of the tensors that it meets, as a tensor without axes does.
    """
    ranks = [part.dim() for part in args if isinstance(part, Tensor)]  # a stack says that of one run
    kinds = [part.dtype for part in args if isinstance(part, Tensor) and part.dim()]
    for part in args:
        if not isinstance(part, Stacked):
            yield part
            continue
        tensor = part.together
        if tensor.dim() == 1 and kinds and tensor.is_floating_point() and kinds[0].is_floating_point:
            tensor = tensor.to(kinds[0])
        missing = max(ranks) + 1 - tensor.dim()
        yield tensor.view(tensor.shape[:1] + (1,) * missing + tensor.shape[1:]) if missing else tensor
