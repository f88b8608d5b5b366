"""The stream of any module whose blocks are named, recorded through hooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import each_tensor
from creditscope.provenance import Guard, GuardStatus
from creditscope.stream.axes import Order, order_of, turned, turned_back
from creditscope.stream.block_pass import BlockCalls, BlockPass
from creditscope.stream.bottlenecks import Bottlenecks
from creditscope.stream.candidates import reader_of
from creditscope.stream.forward_calls import record_calls
from creditscope.stream.hooks import HookedBlocks
from creditscope.stream.reading import Read
from creditscope.stream.replacement import replacing
from creditscope.stream.states import Pass, Shifts, Stream, called, logits_of
from creditscope.stream.turns import calls_in_turn


class HookStream(Stream):
    """Any module with named blocks: h_l is the input of block l, and h_L follows the last block.

    Where input + output of the blocks equals the next input, they are branches of a residual stream and
    h_L = input + output; else h_L is the last output. Where a `reader` is known, as in a plain chain of layers or where
    the model scales what it adds to the stream, h_L is its input. States of shape
    (T, N, d), (N, C, T) or (N, H, W, C) are turned to (N, T, d) and (N, C, H, W).
    """

    def __init__(
        self,
        model: nn.Module,
        read: Read,
        blocks: Sequence[nn.Module] | BlockCalls,
        reader: nn.Module | None = None,
    ) -> None:
        super().__init__(model, read)
        calls = blocks if isinstance(blocks, BlockCalls) else BlockCalls.once(blocks)
        self._named, self._reader = not isinstance(blocks, BlockCalls), reader
        self._hook(calls)
        self._branches: tuple[bool, ...] = ()  # known once the model has run
        self._joined: tuple[bool, ...] = ()  # blocks that add to the stream or return the next state
        self._certain: tuple[bool, ...] = ()
        self._handed: tuple[bool, ...] = ()
        self._orders: tuple[Order, ...] = ()

    def _hook(self, calls: BlockCalls) -> None:
        self._listed = list(calls.blocks)
        self._replaceable = not calls.repeated and calls.argument == calls.result == 0
        self._hooked = HookedBlocks(self.model, calls if self._reader is None else calls.and_once(self._reader))

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks that were named or found, one per state: a block that is called n times appears n times."""
        return self._listed

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One call of the model, with hooks that are removed when it returns."""
        if not self._branches:
            record, logits = self._examine(inputs)
            if torch.is_grad_enabled() and not shifts:
                return self._passed(record, logits)
        came = {layer: self._as_it_came(shift, layer) for layer, shift in (shifts or {}).items()}
        with self._hooked.recording() as record, self._hooked.shifting(came, self._branches, self._handed):
            logits = logits_of(called(self.model, inputs))
        return self._passed(record, logits)

    def _passed(self, record: BlockPass, logits: Tensor) -> Pass:
        states, last = tuple(record.states()), record.outputs[-1]
        if self._reader is not None:
            return Pass(self._all_oriented(states), states, logits)
        deepest = states[-1] + last if self._branches[-1] else last
        return Pass(self._all_oriented((*states, deepest)), (*states, last), logits)

    def at(self, inputs: Any, states: Shifts) -> tuple[list[Tensor], Tensor] | None:
        """One call of the model with its states replaced; refused where other modules may read a state too."""
        if not self._branches:
            self._examine(inputs)
        if not self._replaceable or not all(map(self.certain, range(len(self._listed)))):
            return None
        modules = self._listed if self._reader is None else [*self._listed, self._reader]
        came = {layer: self._as_it_came(state, layer) for layer, state in states.items()}
        with replacing(modules, self._branches, came, reader=self._reader is not None) as seen:
            logits = logits_of(called(self.model, inputs))
        predicted = []
        for index in range(len(self._listed)):
            read, left = came.get(index, seen.entered[index]), seen.outputs[index]
            following = seen.entered.get(index + 1, left)
            predicted.append(self.oriented(read + left if self._branches[index] else following, index + 1))
        return predicted, logits

    def checks(self) -> dict[str, Guard]:
        """A guess, where nothing shows whether the stream bypasses the last block."""
        if self._reader is not None or not self._branches:
            return {}
        if len(self._listed) == 1:
            text = "there is one block, and h_L is taken to be its output"
        elif self._guesses(self._branches):
            text = "h_L is taken to be the output of the last block, as no block returns the input of the next"
        else:
            return {}
        return {"h_L": Guard(GuardStatus.GUESS, text)}

    def _guesses(self, branches: Sequence[bool]) -> bool:
        """Whether nothing shows where the stream is after the last of several blocks."""
        several = self._reader is None and len(self._listed) > 1
        return several and not all(self._joined[:-1]) and not branches[-1]

    def _reader_in(self, inputs: Any) -> nn.Module | None:
        """The module that reads h_L, where blocks that are called once return what the model scales and adds."""
        if not self._replaceable:
            return None
        recorded = record_calls(self.model, inputs)
        own = {id(block) for block in self._listed}
        calls = sorted((call for call in recorded.calls if id(call.module) in own), key=lambda call: call.began)
        name = reader_of(calls, recorded, Bottlenecks(recorded, logits_of(recorded.answer)))
        return self.model.get_submodule(name) if name else None

    def certain(self, layer: int) -> bool:
        """False where a block neither adds to the stream nor returns it: other modules may read the state before it."""
        return layer >= len(self._certain) or self._certain[layer]

    def oriented(self, tensor: Tensor, layer: int) -> Tensor:
        """Samples first, tokens before features, and the channels of an image before its height and width."""
        return turned(tensor, self._orders[layer]) if self._orders else tensor

    def _all_oriented(self, states: Sequence[Tensor]) -> tuple[Tensor, ...]:
        return tuple(self.oriented(state, layer) for layer, state in enumerate(states))

    def _as_it_came(self, tensor: Tensor, layer: int) -> Tensor:
        """The inverse of `oriented`."""
        return turned_back(tensor, self._orders[layer])

    def _examine(self, inputs: Any) -> tuple[BlockPass, Tensor]:
        """Run once to learn which blocks are branches, and which axes are samples and channels."""
        with torch.enable_grad(), self._hooked.recording() as record:
            logits = logits_of(called(self.model, inputs))
        count = len(logits)
        if self._named and (record.rounds() > 1 or (record.rounds() == 1 and record.several)):
            self._named = False
            self._hook(calls_in_turn(self.model, inputs, self._listed))
            return self._examine(inputs)
        if record.last_overwritten() and not self._hooked.keeps_last:
            self._hooked.keeps_last = True
            return self._examine(inputs)
        self._orders = self._axes(inputs, record, count)
        if self._reader is not None:  # a state that is replaced at its block must have no other reader
            layers = range(len(self._listed))
            elsewhere = (record.read_early(layer, logits) or record.bypassed(layer, logits) for layer in layers)
            self._replaceable = self._replaceable and not any(elsewhere)
        branches, self._handed = record.branches(logits), record.handed()
        self._joined = tuple(map(any, zip(branches, record.chained(), strict=True)))
        if self._guesses(branches) and (reader := self._reader_in(inputs)) is not None:
            self._reader = reader
            self._hook(BlockCalls.once(self._listed))
            return self._examine(inputs)
        made_before = (False, *self._handed)
        self._certain = tuple(
            (joined or self._reader is not None)
            and (made_before[layer] or not record.read_early(layer, logits))
            and not (branches[layer] and record.read_late(layer, logits))
            for layer, joined in enumerate(self._joined)
        )
        self._branches = branches
        return record, logits

    def _axes(self, inputs: Any, record: BlockPass, count: int) -> tuple[Order, ...]:
        """How each state is turned, by the module that takes it; the deepest one by the module that made it."""
        states, takers = list(record.states()), [*self._listed]
        if self._reader is None:
            states.append(record.outputs[-1])
        takers.append(self._reader or self._listed[-1])
        second = [state.dim() == 3 and state.shape[1] == count for state in states]
        if any(both and state.shape[0] == count for both, state in zip(second, states, strict=True)):
            second = [both and short for both, short in zip(second, self._shrunk(inputs, count), strict=True)]
        found = zip(states, takers, second, strict=True)
        return tuple(order_of(state, taker, tokens_first=samples) for state, taker, samples in found)

    def _shrunk(self, inputs: Any, count: int) -> list[bool]:
        """Whether one sample less shortens the second axis; asked where there are as many tokens as samples."""
        fewer = each_tensor(inputs, lambda tensor: tensor[1:] if tensor.dim() and len(tensor) == count else tensor)
        if count < 2:
            return [False] * (len(self._listed) + 1)
        with torch.no_grad(), self._hooked.recording() as record:
            called(self.model, fewer)
        states = [*record.states(), *([] if self._reader is not None else record.outputs[-1:])]
        return [state.dim() == 3 and state.shape[1] == count - 1 for state in states]
