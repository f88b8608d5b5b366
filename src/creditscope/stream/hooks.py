"""Forward hooks that record and shift the states of a model's blocks without changing the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.stream.block_pass import BlockCalls, BlockPass
from creditscope.stream.values import entering, floating, nth_tensor, replaced


class HookedBlocks:
    """Forward hooks on the calls of a model's blocks, present only inside the two context managers."""

    def __init__(self, model: nn.Module, calls: BlockCalls) -> None:
        self._model = model
        self._calls = calls
        self.keeps_last = False  # hand on a copy of the last output, because the model writes into it
        self._names = [f"{index} ({type(block).__name__})" for index, block in enumerate(calls.blocks)]

    def __len__(self) -> int:
        return len(self._calls.blocks)

    @contextmanager
    def recording(self) -> Iterator[BlockPass]:
        """Record the input and output of every call; an input without a gradient is made to require one."""
        record = BlockPass(self._names)
        with ExitStack() as stack:
            for block in self._calls.modules():
                before, after = self._recorders(block, record)
                stack.callback(block.register_forward_pre_hook(before, with_kwargs=True).remove)
                stack.callback(block.register_forward_hook(after).remove)
            yield record

    def _recorders(self, block: nn.Module, record: BlockPass) -> tuple[Callable[..., Any], Callable[..., Any]]:
        places = self._calls.places(block)
        first, earlier, begun, ended = min(places.values()), min(places), count(), count()

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            ordinal = next(begun)
            if ordinal < earlier:  # a call before h_0
                return None
            index = places.get(ordinal, first)
            name = f"block {self._names[index]}"
            args, kwargs, state = entering(args, kwargs, _differentiable, name, self._calls.argument)
            record.began.append(index)
            record.inputs.append(state)
            record.entered_at.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
            record.versions.append((f"input of {name}", state, state._version))
            return args, kwargs

        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            ordinal = next(ended)
            if ordinal < earlier:
                return None
            index = places.get(ordinal, first)
            output = _separate(output, self._calls.result)
            state = nth_tensor(output, self._calls.result, f"block {self._names[index]}")
            record.several = record.several or len(floating(output)) > 1
            record.ended.append(index)
            record.outputs.append(state)
            record.left_at.append(torch.autograd._get_sequence_nr())  # type: ignore[attr-defined]
            if index == len(self) - 1:
                record.versions.append((f"output of block {self._names[index]}", state, state._version))
                return replaced(output, state, state.clone()) if self.keeps_last else output
            return output

        return before, after

    @contextmanager
    def shifting(
        self, shifts: Mapping[int, Tensor], branches: Sequence[bool], handed: Sequence[bool] = ()
    ) -> Iterator[None]:
        """Add shifts[l] to h_l.

        A residual branch gets it at its input and output, because the stream bypasses it: h + f(h + δ) + δ. A state
        that the block before it hands over is shifted where it is made. Any other one is written into, so that a
        shortcut around the block gets the shift too. The shift of h_L is added to the output of the last block.
        """
        deepest = len(self)
        own = {tensor.untyped_storage()._cdata for tensor in (*self._model.parameters(), *self._model.buffers())}
        with ExitStack() as stack:
            for index, shift in shifts.items():
                if 0 < index < deepest and index <= len(handed) and handed[index - 1]:
                    stack.callback(self._shift_output(index - 1, shift))
                    continue
                if index < deepest:
                    stack.callback(self._shift_input(index, shift, None if branches[index] else own))
                if index == deepest or branches[index]:
                    stack.callback(self._shift_output(min(index, deepest - 1), shift))
            yield

    def _shift_input(self, index: int, shift: Tensor, own: set[int] | None) -> Callable[[], None]:
        def shifted(state: Tensor) -> Tensor:
            shared = own is None or state._is_view() or state.untyped_storage()._cdata in own
            if shared or torch.is_grad_enabled():
                return state + shift
            state.data.add_(shift)
            return state

        begun, wanted = count(), self._calls.ordinals[index]

        def before(block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if next(begun) != wanted:
                return None
            return entering(args, kwargs, shifted, self._names[index], self._calls.argument)[:2]

        return self._calls.blocks[index].register_forward_pre_hook(before, with_kwargs=True).remove

    def _shift_output(self, index: int, shift: Tensor) -> Callable[[], None]:
        ended, wanted = count(), self._calls.ordinals[index]

        def after(block: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
            if next(ended) != wanted:
                return None
            state = nth_tensor(output, self._calls.result, self._names[index])
            return replaced(output, state, state + shift)

        return self._calls.blocks[index].register_forward_hook(after).remove


def _separate(output: Any, place: int) -> Any:
    """The output of a block with its state as a tensor of its own, where the block returns several.

    The parts of a reversible block's state are computed from each other: y₁ = x₁ + f(x₂), y₂ = x₂ + g(y₁), or (x₂, y₁).
    The gradient at the tensor y₁ itself would include its use inside the block, which precedes the state.
    """
    several = isinstance(output, tuple | list) and sum(bool(floating(part)) for part in output) > 1
    if not several or not torch.is_grad_enabled() or place >= len(floating(output)):
        return output
    state = floating(output)[place]
    return replaced(output, state, state.view_as(state))


def _differentiable(state: Tensor) -> Tensor:
    """The state itself, marked in place: a copy would lose every other use that the model makes of it."""
    if state.requires_grad or not torch.is_grad_enabled():
        return state
    return state.detach().requires_grad_() if isinstance(state, nn.Parameter) else state.requires_grad_()
