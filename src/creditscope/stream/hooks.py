"""Forward hooks that record and shift the states of a model's blocks without changing the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from creditscope.errors import ModelMismatch
from creditscope.stream.values import entering, floating, nth_tensor, replaced


@dataclass(frozen=True, slots=True, eq=False)
class BlockCalls:
    """The calls whose inputs are the states h_0..h_{L-1}: modules, and which of its calls each one is.

    blocks    one module per state; a module that is called several times appears several times
    ordinals  0 for a module's first call
    argument  which floating-point tensor among the arguments is the state; 1 in a recurrent cell(x_t, h)
    result    which floating-point tensor among what is returned is the next state
    """

    blocks: tuple[nn.Module, ...]
    ordinals: tuple[int, ...]
    argument: int = 0
    result: int = 0

    @classmethod
    def once(cls, blocks: Sequence[nn.Module]) -> BlockCalls:
        """Modules that are called once each."""
        return cls(tuple(blocks), (0,) * len(blocks))

    @property
    def repeated(self) -> bool:
        """Whether a module is called several times."""
        return len({id(block) for block in self.blocks}) < len(self.blocks) or any(self.ordinals)

    def and_once(self, block: nn.Module) -> BlockCalls:
        """These calls, and one of another module after them."""
        return BlockCalls((*self.blocks, block), (*self.ordinals, 0), self.argument, self.result)

    def places(self, block: nn.Module) -> dict[int, int]:
        """The state before each call of a module, by the call's number."""
        return {
            ordinal: index
            for index, (module, ordinal) in enumerate(zip(self.blocks, self.ordinals, strict=True))
            if module is block
        }

    def modules(self) -> list[nn.Module]:
        """The modules, each once."""
        return list({id(block): block for block in self.blocks}.values())


@dataclass(slots=True)
class BlockPass:
    """Inputs and outputs of the blocks in one forward pass, in the order in which the blocks began and ended."""

    names: list[str]
    began: list[int] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    versions: list[tuple[str, Tensor, int]] = field(default_factory=list)
    several: bool = False  # a block returned several tensors
    entered_at: list[int] = field(default_factory=list)  # autograd's clock
    left_at: list[int] = field(default_factory=list)

    def states(self) -> list[Tensor]:
        """The inputs, once it is certain that each block ran once and that nothing was changed in place."""
        self.complete()
        self.unchanged()
        return self.inputs

    def last_overwritten(self) -> bool:
        """Whether the model wrote into the output of the last block."""
        self.complete()
        _, state, version = self.versions[-1]
        return state is self.outputs[-1] and state._version != version

    def unchanged(self) -> None:
        """Refuse states that are no longer what the blocks saw."""
        for what, state, version in self.versions:
            if state._version != version:
                raise changed_in_place(what)

    def branches(self, logits: Tensor) -> tuple[bool, ...]:
        """Whether input + output, not output alone, is the next input, per block.

        The last one counts as the others, or, where these differ, as the graph adds its output to its input or not.
        """
        self.complete()
        known = tuple(map(residual, self.inputs, self.outputs, self.inputs[1:]))
        return (*known, any(known) and (all(known) or self._added(logits)))

    def _added(self, logits: Tensor) -> bool:
        """Whether some function adds the input and the output of the last block."""
        last = (self.inputs[-1], self.outputs[-1])
        if not all(tensor.requires_grad for tensor in (*last, logits)):
            return False
        both = {(edge.node, edge.output_nr) for edge in map(get_gradient_edge, last)}
        return any(
            function.name().startswith("AddBackward") and both <= set(function.next_functions)
            for function in functions_of(logits)
        )

    def handed(self) -> tuple[bool, ...]:
        """Whether the output is the very tensor that enters the next block, per block but the last."""
        return tuple(left is entered for left, entered in zip(self.outputs, self.inputs[1:], strict=False))

    def chained(self) -> tuple[bool, ...]:
        """Whether the output alone is the next input, per block; the last one counts as the others."""
        known = tuple(map(torch.equal, self.outputs, self.inputs[1:]))
        return (*known, all(known))

    def read_early(self, layer: int, logits: Tensor) -> bool:
        """Whether something else read the state before its block did; such a use does not see a shift at the block."""
        return any(at < self.entered_at[layer] for at in self._uses(layer, logits))

    def read_late(self, layer: int, logits: Tensor) -> bool:
        """Whether more than one thing reads the state after its block: not only the stream that bypasses the block."""
        return sum(at >= self.left_at[layer] for at in self._uses(layer, logits)) > 1

    def bypassed(self, layer: int, logits: Tensor) -> bool:
        """Whether anything reads the state after its block."""
        return any(at >= self.left_at[layer] for at in self._uses(layer, logits))

    def _uses(self, layer: int, logits: Tensor) -> list[int]:
        """When, by autograd's clock, the state is read."""
        if not (logits.requires_grad and self.inputs[layer].requires_grad):
            return []
        state = get_gradient_edge(self.inputs[layer])
        users = (f for f in functions_of(logits) if (state.node, state.output_nr) in f.next_functions)
        return [function._sequence_nr() for function in users]

    def rounds(self) -> int:
        """How often each block ran, one call after the other; 0 if not all ran equally often."""
        often = {self.began.count(index) for index in range(len(self.names))}
        return often.pop() if len(often) == 1 and self.began == self.ended else 0

    def complete(self) -> None:
        """Refuse blocks that did not run exactly once, one after the other."""
        expected = list(range(len(self.names)))
        if self.began != expected or self.ended != expected:
            order = ", ".join(map(str, self.began[:20])) or "none of them"
            raise ModelMismatch(
                f"{len(self.names)} blocks were named, but {len(self.began)} calls of them were recorded in one "
                f"forward pass: {order}.\n"
                "A state would stand for the wrong layer. Name blocks that each run exactly once, in order, or equally "
                "often and one after the other in every pass."
            )


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


def residual(entered: Tensor, left: Tensor, following: Tensor) -> bool:
    """Whether a block's output is a branch, h + f = h', and not the next state itself, f = h'."""
    if not entered.shape == left.shape == following.shape or torch.equal(left, following):
        return False
    return torch.allclose(entered + left, following, rtol=1e-3, atol=1e-6, equal_nan=True)


def changed_in_place(what: str) -> ModelMismatch:
    """The error for a state that was overwritten."""
    return ModelMismatch(
        f"The {what} was changed in place after it had been recorded.\n"
        "The record would hold another state. Write h = h + f(h) instead of h += f(h), and inplace=False."
    )


def functions_of(tensor: Tensor) -> set[Any]:
    """The functions in the graph of a tensor."""
    functions: set[Any] = set()
    waiting: list[Any] = [tensor.grad_fn]
    while waiting:
        function = waiting.pop()
        if function is not None and function not in functions:
            functions.add(function)
            waiting.extend(following for following, _ in function.next_functions)
    return functions


def _differentiable(state: Tensor) -> Tensor:
    """The state itself, marked in place: a copy would lose every other use that the model makes of it."""
    if state.requires_grad or not torch.is_grad_enabled():
        return state
    return state.detach().requires_grad_() if isinstance(state, nn.Parameter) else state.requires_grad_()
