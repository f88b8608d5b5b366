"""How is the stream of any model found?"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from creditscope.contract import ContractStream, HiddenStream
from creditscope.errors import InvalidInput, ModelMismatch, UnknownName
from creditscope.hooks import HookedBlocks
from creditscope.registry import unknown
from creditscope.stream import Pass, Read, Shifts, StagedStream, Stream, block_lists, called, logits_of

__all__ = ["HookStream", "Pass", "Read", "Shifts", "StagedStream", "Stream", "find_stream", "named_blocks"]


class HookStream(Stream):
    """Any module with named blocks: h_l is the input of block l, h_L what leaves the last one.

    Where input + output of every block equals the next input, the blocks are branches of a residual stream and
    h_L = input + output; else h_L is the last output.
    """

    def __init__(self, model: nn.Module, read: Read, blocks: Sequence[nn.Module]) -> None:
        super().__init__(model, read)
        self._hooked = HookedBlocks(model, blocks)
        self._branches: tuple[bool, ...] | None = None
        self._certain: tuple[bool, ...] = ()

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One call of the model with hooks that are gone when it returns."""
        if self._branches is None:
            with torch.no_grad(), self._hooked.recording() as seen:
                called(self.model, inputs)
            seen.states()
            self._branches = seen.branches()
            self._certain = tuple(map(any, zip(self._branches, seen.chained(), strict=True)))
        with self._hooked.recording() as seen, self._hooked.shifting(shifts or {}, self._branches):
            logits = logits_of(called(self.model, inputs))
        states, last = seen.states(), seen.outputs[-1]
        deepest = states[-1] + last if all(self._branches) else last
        return Pass((*states, deepest), (*states, last), logits)

    def certain(self, layer: int) -> bool:
        """Not where a block neither adds to the stream nor returns it: others read the state too, perhaps before it."""
        return layer >= len(self._certain) or self._certain[layer]


def find_stream(model: nn.Module, blocks: str | Sequence[str] | None = None, read: Read = "auto") -> Stream:
    """The stream of a model: of our own kind, of the published contract, or of the blocks that are named."""
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
            return ContractStream(model, read)
    raise ModelMismatch(
        f"{type(model).__name__} does not show its stream: it has neither `return_hidden=True` nor "
        "embed, blocks and read-out.\n"
        "Without the states between the blocks there is nothing to audit. "
        f"Pass blocks= the path of its block list. {block_lists(model)}"
    )


def _is_rule(read: object) -> bool:
    return type(read) is int or (isinstance(read, str) and read in ("auto", "first", "mean", "all"))


def named_blocks(model: nn.Module, blocks: str | Sequence[str]) -> list[nn.Module]:
    """The modules behind the path of a list of blocks, or behind a list of module names."""
    modules = dict(model.named_modules())
    names = [blocks] if isinstance(blocks, str) else list(blocks)
    for name in names:
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
    if not names:
        raise ModelMismatch("blocks=[] names no block.\nA stream without blocks has no depth to audit. Name some.")
    return [modules[name] for name in names]
