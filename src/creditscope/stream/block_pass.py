"""Calls of a model's blocks, and what one forward pass through them shows about its states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

from creditscope.errors import ModelMismatch


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
