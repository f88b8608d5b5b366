"""How is the stream of any model found?"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.batch import each_tensor
from creditscope.contract import ContractStream, HiddenStream
from creditscope.discovery import discover
from creditscope.errors import CreditscopeError, InvalidInput, ModelMismatch, UnknownName
from creditscope.hooks import HookedBlocks
from creditscope.registry import unknown
from creditscope.stream import Pass, Read, Shifts, StagedStream, Stream, block_lists, called, logits_of
from creditscope.unwrapping import bare

__all__ = [
    "HookStream",
    "Pass",
    "Read",
    "SearchedStream",
    "Shifts",
    "StagedStream",
    "Stream",
    "find_stream",
    "named_blocks",
]


class HookStream(Stream):
    """Any module with named blocks: h_l is the input of block l, h_L what leaves the last one.

    Where input + output of every block equals the next input, the blocks are branches of a residual stream and
    h_L = input + output; else h_L is the last output. Where a `reader` is known, h_L is what enters that. States that
    come as (T, N, d) or (N, H, W, C) are shown as (N, T, d) and (N, C, H, W).
    """

    def __init__(
        self, model: nn.Module, read: Read, blocks: Sequence[nn.Module], reader: nn.Module | None = None
    ) -> None:
        super().__init__(model, read)
        self._listed, self._reader = list(blocks), reader
        self._hooked = HookedBlocks(model, self._listed if reader is None else [*self._listed, reader])
        self._branches: tuple[bool, ...] | None = None
        self._certain: tuple[bool, ...] = ()
        self._tokens_first = self._channels_last = False

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks that were named or found."""
        return self._listed

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One call of the model with hooks that are gone when it returns."""
        if self._branches is None:
            self._branches = self._look(inputs)
        turned = {layer: self._as_it_came(shift) for layer, shift in (shifts or {}).items()}
        with self._hooked.recording() as seen, self._hooked.shifting(turned, self._branches):
            logits = logits_of(called(self.model, inputs))
        states, last = tuple(seen.states()), seen.outputs[-1]
        if self._reader is not None:
            return Pass(tuple(map(self.oriented, states)), states, logits)
        deepest = states[-1] + last if all(self._branches) else last
        return Pass(tuple(map(self.oriented, (*states, deepest))), (*states, last), logits)

    def checks(self) -> dict[str, str]:
        """Where nothing shows whether the stream passes the last block by."""
        if self._reader is not None or self._branches is None:
            return {}
        if len(self._listed) == 1:
            return {"h_L": "a guess: one block, taken for all of the stream; h_L is what it returns"}
        told = all(self._certain[:-1])
        return {} if told else {"h_L": "a guess: what the last block returns, as no block gives the next one's input"}

    def certain(self, layer: int) -> bool:
        """Not where a block neither adds to the stream nor returns it: others read the state too, perhaps before it."""
        return self._reader is not None or layer >= len(self._certain) or self._certain[layer]

    def oriented(self, tensor: Tensor) -> Tensor:
        """Samples first, and the channels of an image before its height and width."""
        if tensor.dim() == 3 and self._tokens_first:
            return tensor.transpose(0, 1)
        return tensor.movedim(-1, 1) if tensor.dim() == 4 and self._channels_last else tensor

    def _as_it_came(self, tensor: Tensor) -> Tensor:
        """What `oriented` turned, turned back."""
        if tensor.dim() == 4 and self._channels_last:
            return tensor.movedim(1, -1)
        return self.oriented(tensor)

    def _look(self, inputs: Any) -> tuple[bool, ...]:
        """Run once to see which blocks are branches, and which axes count samples and channels."""
        with torch.no_grad(), self._hooked.recording() as seen:
            count = len(logits_of(called(self.model, inputs)))
        state = seen.states()[-1]
        if state.dim() == 3 and state.shape[1] == count:
            self._tokens_first = state.shape[0] != count or self._shrinks(inputs, count)
        self._channels_last = (
            state.dim() == 4 and self._is_width(state.shape[-1]) and not self._is_width(state.shape[1])
        )
        branches = seen.branches()
        self._certain = tuple(map(any, zip(branches, seen.chained(), strict=True)))
        return branches

    def _is_width(self, size: int) -> bool:
        """Whether the last block has a bias or a gain of this size: channels have, positions do not."""
        return any(parameter.shape == (size,) for parameter in self._listed[-1].parameters())

    def _shrinks(self, inputs: Any, count: int) -> bool:
        """Whether one sample fewer shortens the second axis: as many tokens as samples do not tell them apart."""
        fewer = each_tensor(inputs, lambda tensor: tensor[1:] if tensor.dim() and len(tensor) == count else tensor)
        if count < 2:
            return False
        with torch.no_grad(), self._hooked.recording() as seen:
            called(self.model, fewer)
        return seen.states()[-1].shape[1] == count - 1


class SearchedStream(Stream):
    """A model that does not show its stream: it is found by structure as soon as there are inputs to run it on."""

    def __init__(self, model: nn.Module, read: Read, trial: ContractStream | None = None) -> None:
        super().__init__(model, read)
        self._trial = trial
        self._found: Stream | None = None
        self._told = ""

    def found(self, inputs: Any) -> Stream:
        """The stream itself: of the published contract, if the forward pass keeps it, else of the blocks found."""
        if self._found is None:
            objection = self._objection(inputs)
            kept = self._trial if objection is None else None
            self._found = kept or self._structure(inputs, objection)
        return self._found

    def _objection(self, inputs: Any) -> Exception | None:
        """Why the forward pass is not that of the published contract: the model means other things by its names."""
        try:
            with torch.no_grad():
                if self._trial is not None:
                    self._trial.verify(inputs, self._trial.run(inputs).logits)
        except (CreditscopeError, RuntimeError, TypeError, AttributeError, ValueError) as error:
            return error
        return None

    def _structure(self, inputs: Any, objection: Exception | None) -> Stream:
        try:
            found = discover(self.model, inputs)
        except ModelMismatch as error:
            raise objection if isinstance(objection, ModelMismatch) else error from error
        reader = self.model.get_submodule(found.reader) if found.reader else None
        self._told = f"passed: {found.title} found by structure, {found.spelled(self.model)}"
        return HookStream(self.model, self.rule, found.blocks, reader)

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks, once they are found."""
        if self._found is None:
            raise ModelMismatch(
                f"The blocks of {type(self.model).__name__} are not known before its first batch.\n"
                "They are found by running it. Pass blocks= the path of its block list, or run it first."
            )
        return self._found.blocks

    def checks(self) -> dict[str, str]:
        """Which blocks were found, and how to name them."""
        return {"stream": self._told} if self._told else {}

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """As the stream that was found."""
        return self.found(inputs).run(inputs, shifts)

    def certain(self, layer: int) -> bool:
        """As the stream that was found."""
        return self._found is not None and self._found.certain(layer)

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """As the stream that was found."""
        return None if self._found is None else self._found.onward(layer, state)

    def oriented(self, tensor: Tensor) -> Tensor:
        """As the stream that was found."""
        return tensor if self._found is None else self._found.oriented(tensor)


def find_stream(model: nn.Module, blocks: str | Sequence[str] | None = None, read: Read = "auto") -> Stream:
    """The stream of a model: of our own kind, of the published contract, of the blocks that are named, or searched.

    Wrappers such as DataParallel and torch.compile are taken off: `stream.model` is the model itself.
    """
    model = bare(model)
    if not _is_rule(read):
        raise InvalidInput(
            f"read={read!r} does not say which vector stands for a state with tokens.\n"
            "Pass 'auto', 'first', 'mean', 'all' or a token index."
        )
    if read == "auto":
        own: Any = getattr(model, "token", "auto")
        read = own if _is_rule(own) else "auto"
    if blocks is not None:
        return HookStream(model, read, named_blocks(model, blocks))
    if all(callable(getattr(model, name, None)) for name in ("embedding", "branch", "merge", "readout")):
        return StagedStream(model, read, model)
    listed = getattr(model, "blocks", None)
    if isinstance(listed, nn.ModuleList | nn.Sequential):
        if "return_hidden" in inspect.signature(model.forward).parameters:
            return HiddenStream(model, read, list(listed))
        if any(hasattr(model, name) for name in ("embed", "patch_embed")) and (
            hasattr(model, "out_head") or hasattr(model, "head")
        ):
            return SearchedStream(model, read, ContractStream(model, read))
    return SearchedStream(model, read)


def _is_rule(read: object) -> bool:
    return type(read) is int or (isinstance(read, str) and read in ("auto", "first", "mean", "all"))


def named_blocks(model: nn.Module, blocks: str | Sequence[str]) -> list[nn.Module]:
    """The modules behind the path of a list of blocks, or behind a list of module names."""
    modules = dict(model.named_modules())
    names = [blocks] if isinstance(blocks, str) else list(blocks) if isinstance(blocks, Iterable) else [blocks]
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(
                f"blocks= holds a {type(name).__name__}, not the name of a module.\n"
                "Nothing says which state it belongs to. Pass names, as model.named_modules() gives them, or the path "
                f"of the list of blocks. {block_lists(model)}"
            )
        if name not in modules:
            raise UnknownName(unknown(f"module in {type(model).__name__}", name, [key for key in modules if key]))
    if isinstance(blocks, str):
        found = list(modules[blocks].children())
        if not isinstance(modules[blocks], nn.ModuleList | nn.Sequential) or not found:
            raise ModelMismatch(
                f"{blocks!r} is a {type(modules[blocks]).__name__}, not a list of blocks.\n"
                f"Name a ModuleList or Sequential, or pass a list of module names. {block_lists(model)}"
            )
        return found
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(
            f"blocks= names {', '.join(twice)} more than once.\n"
            "One block would count as two layers, and every state after it as another. Name each block once, in order."
        )
    if not names:
        raise ModelMismatch("blocks=[] names no block.\nA stream without blocks has no depth to audit. Name some.")
    return [modules[name] for name in names]
