"""Forward hooks that record and shift the states of a model's blocks without changing the model."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.errors import ModelMismatch

Change = Callable[[Tensor], Tensor]


@dataclass(slots=True)
class BlockPass:
    """Inputs and outputs of the blocks in one forward pass, in the order in which the blocks began and ended."""

    names: list[str]
    began: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    versions: list[tuple[str, Tensor, int]] = field(default_factory=list)

    def states(self) -> list[Tensor]:
        """The inputs, once it is certain that each block ran once and that nothing was changed in place."""
        self.complete()
        self.unchanged()
        return self.inputs

    def unchanged(self) -> None:
        """Refuse states that are no longer what the blocks saw."""
        for what, state, version in self.versions:
            if state._version != version:
                raise changed_in_place(what)

    def branches(self) -> tuple[bool, ...]:
        """Whether input + output, not output alone, is the next input, per block; the last one counts as the others."""
        self.complete()
        known = tuple(map(residual, self.inputs, self.outputs, self.inputs[1:]))
        return (*known, bool(known) and all(known))

    def chained(self) -> tuple[bool, ...]:
        """Whether the output alone is the next input, per block; the last one counts as the others."""
        known = tuple(map(torch.equal, self.outputs, self.inputs[1:]))
        return (*known, all(known))

    def complete(self) -> None:
        """Refuse blocks that did not run exactly once, one after the other."""
        expected = list(range(len(self.names)))
        if self.began != expected or self.ended != expected:
            order = ", ".join(map(str, self.began[:20])) or "none of them"
            raise ModelMismatch(
                f"{len(self.names)} blocks were named, but {len(self.began)} calls of them were recorded in one "
                f"forward pass: {order}.\n"
                "A state would stand for the wrong layer. Name blocks that each run exactly once, in order."
            )


class HookedBlocks:
    """Forward hooks on a list of a model's blocks, present only inside the two context managers."""

    def __init__(self, model: nn.Module, blocks: Sequence[nn.Module]) -> None:
        self._model = model
        self._blocks = list(blocks)
        self._names = [f"{index} ({type(block).__name__})" for index, block in enumerate(self._blocks)]

    def __len__(self) -> int:
        return len(self._blocks)

    @contextmanager
    def recording(self) -> Iterator[BlockPass]:
        """Record the input and output of every block; an input without a gradient is made to require one."""
        record = BlockPass(self._names)
        with ExitStack() as stack:
            for index, block in enumerate(self._blocks):
                before, after = self._recorders(index, record)
                stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(block.register_forward_hook(after).remove)
            yield record

    def _recorders(self, index: int, record: BlockPass) -> tuple[Callable[..., Any], Callable[..., Any]]:
        name = f"block {self._names[index]}"

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            args, kwargs, state = entering(args, kwargs, _differentiable, name)
            record.began.append(index)
            record.inputs.append(state)
            record.versions.append((f"input of {name}", state, state._version))
            return args, kwargs

        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            output = _separate(output)
            state = first_tensor(output, name)
            record.ended.append(index)
            record.outputs.append(state)
            if index == len(self._blocks) - 1:
                record.versions.append((f"output of {name}", state, state._version))
            return output

        return before, after

    @contextmanager
    def shifting(self, shifts: Mapping[int, Tensor], branches: Sequence[bool]) -> Iterator[None]:
        """Add shifts[l] to h_l.

        A residual branch gets it at its input and output, because the stream bypasses it: h + f(h + δ) + δ. Before any
        other block it is written into the state itself, so that a shortcut around the block gets it too. The shift of
        h_L is added to the output of the last block.
        """
        deepest = len(self._blocks)
        own = {tensor.untyped_storage().data_ptr() for tensor in (*self._model.parameters(), *self._model.buffers())}
        with ExitStack() as stack:
            for index, shift in shifts.items():
                if index < deepest:
                    stack.callback(self._shift_input(index, shift, None if branches[index] else own))
                if index == deepest or branches[index]:
                    stack.callback(self._shift_output(min(index, deepest - 1), shift))
            yield

    def _shift_input(self, index: int, shift: Tensor, own: set[int] | None) -> Callable[[], None]:
        def shifted(state: Tensor) -> Tensor:
            shared = own is None or state._is_view() or state.untyped_storage().data_ptr() in own
            if shared or torch.is_grad_enabled():
                return state + shift
            state.data.add_(shift)
            return state

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return entering(args, kwargs, shifted, self._names[index])[:2]

        return self._blocks[index].register_forward_pre_hook(before, with_kwargs=True).remove

    def _shift_output(self, index: int, shift: Tensor) -> Callable[[], None]:
        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            return _with_first(output, lambda state: state + shift)[0]

        return self._blocks[index].register_forward_hook(after).remove


def _separate(output: Any) -> Any:
    """The output of a block with its state as a tensor of its own, where the block returns several.

    The parts of a reversible block's state are computed from each other: y₁ = x₁ + f(x₂), y₂ = x₂ + g(y₁), or (x₂, y₁).
    The gradient at the tensor y₁ itself would include its use inside the block, which precedes the state.
    """
    several = isinstance(output, tuple | list) and sum(first_floating(part) is not None for part in output) > 1
    return _with_first(output, lambda state: state.view_as(state))[0] if several and torch.is_grad_enabled() else output


def residual(entered: Tensor, left: Tensor, following: Tensor) -> bool:
    """Whether a block's output is a branch, h + f = h', and not the next state itself, f = h'."""
    if not entered.shape == left.shape == following.shape or torch.equal(left, following):
        return False
    return torch.allclose(entered + left, following, rtol=1e-3, atol=1e-6, equal_nan=True)


def first_tensor(output: Any, where: str) -> Tensor:
    """The tensor in what a module returned, the first floating-point one if there are several."""
    state = _with_first(output, lambda tensor: tensor)[1]
    if state is None:
        raise ModelMismatch(
            f"{where} returned {type(output).__name__}, which holds no floating-point tensor.\n"
            "There is no state to measure. Name modules that return a tensor, or a tuple whose first one is the state."
        )
    return state


def first_floating(value: Any) -> Tensor | None:
    """The first floating-point tensor in a value, None if there is none."""
    return _with_first(value, lambda tensor: tensor)[1]


def changed_in_place(what: str) -> ModelMismatch:
    """The error for a state that was overwritten."""
    return ModelMismatch(
        f"The {what} was changed in place after it had been recorded.\n"
        "The record would hold another state. Write h = h + f(h) instead of h += f(h), and inplace=False."
    )


def _differentiable(state: Tensor) -> Tensor:
    """The state itself, marked in place: a copy would lose every other use that the model makes of it."""
    if state.requires_grad or not torch.is_grad_enabled():
        return state
    return state.detach().requires_grad_() if isinstance(state, nn.Parameter) else state.requires_grad_()


def entering(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Change, name: str
) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
    """Arguments with their first floating-point tensor changed, and that tensor."""
    args, state = _with_first(args, change)
    if state is None:
        kwargs, state = _with_first(kwargs, change)
    if state is None:
        raise ModelMismatch(
            f"{name} takes no floating-point tensor.\n"
            "There is no state to measure. Name the blocks between the embedding and the read-out."
        )
    return args, kwargs, state


def _with_first(value: Any, change: Change) -> tuple[Any, Tensor | None]:
    """A value with the first floating-point tensor in it changed, and that tensor; None if there is none."""
    if isinstance(value, Tensor):
        if not value.is_floating_point():
            return value, None
        state = change(value)
        return state, state
    pairs = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, tuple | list) else ()
    for key, part in pairs:
        changed, first = _with_first(part, change)
        if first is not None:
            return _exchanged(value, key, changed), first
    return value, None


def _exchanged(value: Any, key: Any, part: Any) -> Any:
    if isinstance(value, tuple):
        parts = [*value[:key], part, *value[key + 1 :]]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    copied = copy.copy(value)
    copied[key] = part
    return copied
