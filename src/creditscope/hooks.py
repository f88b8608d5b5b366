"""What enters and leaves the blocks of somebody else's model, seen and shifted without touching the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.errors import ModelMismatch


@dataclass(slots=True)
class Seen:
    """Inputs and outputs of the blocks in one forward pass, with each input's version when it was seen."""

    names: list[str]
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def states(self) -> list[Tensor]:
        """The inputs, once it is certain that they are still what the blocks saw."""
        self._complete()
        for name, state, version in zip(self.names, self.inputs, self.versions, strict=True):
            if state._version != version:
                raise ModelMismatch(
                    f"The input of block {name} was changed in place after the block had read it.\n"
                    "Its recorded state would be another one. Write h = h + f(h) instead of h += f(h)."
                )
        return self.inputs

    def branches(self) -> bool:
        """Whether input + output of every block but the last equals the next input."""
        self._complete()
        pairs = zip(self.inputs[:-1], self.outputs[:-1], self.inputs[1:], strict=True)
        sums = [
            entered.shape == left.shape == following.shape
            and torch.allclose(entered + left, following, rtol=1e-3, atol=1e-6, equal_nan=True)
            for entered, left, following in pairs
        ]
        return bool(sums) and all(sums)

    def _complete(self) -> None:
        if len(self.inputs) != len(self.names):
            raise ModelMismatch(
                f"{len(self.names)} blocks were named but {len(self.inputs)} calls of them were seen in one forward "
                "pass.\nA state would stand for the wrong layer. Name blocks that each run exactly once, in order."
            )


class HookedBlocks:
    """Forward hooks on a list of blocks, present only inside the two context managers."""

    def __init__(self, blocks: Sequence[nn.Module]) -> None:
        self._blocks = list(blocks)
        self._names = [f"{index} ({type(block).__name__})" for index, block in enumerate(self._blocks)]

    @contextmanager
    def recording(self) -> Iterator[Seen]:
        """See every block's input and output; an input that needs no gradient is cut, so that it can have one."""
        seen = Seen(self._names)

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            args, kwargs, state = _with_gradient(args, kwargs, type(block).__name__)
            seen.inputs.append(state)
            seen.versions.append(state._version)
            return args, kwargs

        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> None:
            seen.outputs.append(first_tensor(output, f"block {type(block).__name__}"))

        with ExitStack() as stack:
            for block in self._blocks:
                stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(block.register_forward_hook(after).remove)
            yield seen

    @contextmanager
    def shifting(self, shifts: Mapping[int, Tensor], *, branches: bool) -> Iterator[None]:
        """Add shifts[l] to h_l.

        Blocks that return the next state get it at their input. Residual branches get it at input and output, because
        the stream passes them by: h + f(h + δ) + δ. The shift of h_L is added to what the last block returns.
        """
        deepest = len(self._blocks)
        with ExitStack() as stack:
            for index, shift in shifts.items():
                if index < deepest:
                    stack.callback(self._shift_input(index, shift))
                if index == deepest or branches:
                    stack.callback(self._shift_output(min(index, deepest - 1), shift))
            yield

    def _shift_input(self, index: int, shift: Tensor) -> Any:
        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return _replaced(args, kwargs, lambda state: state + shift, type(block).__name__)[:2]

        return self._blocks[index].register_forward_pre_hook(before, with_kwargs=True).remove

    def _shift_output(self, index: int, shift: Tensor) -> Any:
        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            if isinstance(output, Tensor):
                return output + shift
            moved = first_tensor(output, type(block).__name__) + shift
            return type(output)([moved, *output[1:]]) if isinstance(output, list) else (moved, *output[1:])

        return self._blocks[index].register_forward_hook(after).remove


def first_tensor(output: Any, where: str) -> Tensor:
    """The tensor in what a module returned, the first one if there are several."""
    if isinstance(output, Tensor):
        return output
    values = list(output.values()) if isinstance(output, Mapping) else output
    if isinstance(values, tuple | list):
        for value in values:
            if isinstance(value, Tensor):
                return value
    raise ModelMismatch(
        f"{where} returned {type(output).__name__}, which holds no tensor.\n"
        "There is no state to measure. Name modules that return a tensor, or a tuple whose first tensor is the state."
    )


def _with_gradient(
    args: tuple[Any, ...], kwargs: dict[str, Any], name: str
) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
    def keep(state: Tensor) -> Tensor:
        if state.requires_grad or not torch.is_grad_enabled():
            return state
        return state.detach().requires_grad_()

    return _replaced(args, kwargs, keep, name)


def _replaced(
    args: tuple[Any, ...], kwargs: dict[str, Any], change: Any, name: str
) -> tuple[tuple[Any, ...], dict[str, Any], Tensor]:
    """Arguments with their first floating-point tensor changed, and that tensor."""
    for index, value in enumerate(args):
        if isinstance(value, Tensor) and value.is_floating_point():
            state = change(value)
            return (*args[:index], state, *args[index + 1 :]), kwargs, state
    for key, value in kwargs.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            state = change(value)
            return args, {**kwargs, key: state}, state
    raise ModelMismatch(
        f"Block {name} takes no floating-point tensor.\n"
        "There is no state to measure. Name the blocks between the embedding and the read-out."
    )
