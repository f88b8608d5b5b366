"""find_stream: the stream of any model, by its own stages, its published interface, named blocks or search."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.errors import AmbiguousStream, CreditscopeError, InvalidInput, ModelMismatch, UnknownName
from creditscope.provenance import Guard, GuardStatus
from creditscope.registry import unknown
from creditscope.stream.discovery import discover
from creditscope.stream.hooked import HookStream
from creditscope.stream.published import HiddenStream, PublishedStream
from creditscope.stream.reading import Read
from creditscope.stream.states import Pass, Shifts, StagedStream, Stream, block_lists
from creditscope.stream.suggestions import suggestion
from creditscope.stream.unwrap import bare

OTHER_STREAMS = "other streams"  # the guard that names the streams that were not taken


class SearchedStream(Stream):
    """A stream that is searched by structure once there are inputs to run the model on."""

    def __init__(self, model: nn.Module, read: Read, trial: PublishedStream | None = None) -> None:
        super().__init__(model, read)
        self._trial = trial
        self._resolved: Stream | None = None
        self._guards: dict[str, Guard] = {}

    def resolved(self, inputs: Any) -> Stream:
        """The stream of the published interface if the forward pass follows it, else that of the blocks found."""
        if self._resolved is None:
            objection = self._objection(inputs)
            kept = self._trial if objection is None else None
            self._resolved = kept or self._structure(inputs, objection)
        return self._resolved

    def _objection(self, inputs: Any) -> Exception | None:
        """Why the forward pass does not follow the published interface: the model uses its names for other things."""
        try:
            with torch.no_grad():
                if self._trial is not None:
                    self._trial.verify(inputs, self._trial.run(inputs).logits)
        except (CreditscopeError, RuntimeError, TypeError, AttributeError, ValueError) as error:
            return error
        return None

    def _structure(self, inputs: Any, objection: Exception | None) -> Stream:
        try:
            blocks = discover(self.model, inputs)
        except ModelMismatch as error:
            refusal = objection if isinstance(objection, ModelMismatch) else error
            runs = error.runs if isinstance(error, AmbiguousStream) else ()
            raise ModelMismatch(f"{refusal}\n{suggestion(self.model, inputs, runs)}") from error
        reader = self.model.get_submodule(blocks.reader) if blocks.reader else None
        text = f"{blocks.title} found by structure, {blocks.as_option(self.model)}"
        self._guards = {"stream": Guard(GuardStatus.PASSED, text)}
        if blocks.others:
            self._guards[OTHER_STREAMS] = Guard(GuardStatus.PASSED, blocks.other_streams(self.model))
        return HookStream(self.model, self.rule, blocks.calls, reader)

    @property
    def blocks(self) -> list[nn.Module]:
        """The blocks, once the model has run."""
        if self._resolved is None:
            raise ModelMismatch(
                f"The blocks of {type(self.model).__name__} are not known before its first batch.\n"
                "They are found by running the model. Pass blocks= the path of its block list, or run it first."
            )
        return self._resolved.blocks

    def constants(self) -> Sequence[nn.Module]:
        """None before the first run."""
        return () if self._resolved is None else self._resolved.constants()

    def checks(self) -> dict[str, Guard]:
        """The blocks that were found, and the option that names them."""
        return self._guards

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """As the stream that was found."""
        return self.resolved(inputs).run(inputs, shifts)

    def in_one_graph(self, inputs: Any) -> Pass:
        """As the stream that was found."""
        return self.resolved(inputs).in_one_graph(inputs)

    def at(self, inputs: Any, states: Shifts) -> tuple[list[Tensor], Tensor] | None:
        """As the stream that was found."""
        return self.resolved(inputs).at(inputs, states)

    def certain(self, layer: int) -> bool:
        """As the stream that was found."""
        return self._resolved is not None and self._resolved.certain(layer)

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """As the stream that was found."""
        return None if self._resolved is None else self._resolved.onward(layer, state)

    def oriented(self, tensor: Tensor, layer: int) -> Tensor:
        """As the stream that was found."""
        return tensor if self._resolved is None else self._resolved.oriented(tensor, layer)


def find_stream(model: nn.Module, blocks: str | Sequence[str] | None = None, read: Read = "auto") -> Stream:
    """The stream of a model: of our own networks, of the published interface, of named blocks, or searched.

    Wrappers such as DataParallel and torch.compile are removed: `stream.model` is the model itself.
    """
    model = bare(model)
    if not _is_rule(read):
        raise InvalidInput(
            f"read={read!r} is not a rule for reading a state with tokens.\n"
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
            return SearchedStream(model, read, PublishedStream(model, read))
    return SearchedStream(model, read)


def _is_rule(read: object) -> bool:
    return type(read) is int or (isinstance(read, str) and read in ("auto", "first", "mean", "all"))


def named_blocks(model: nn.Module, blocks: str | Sequence[str]) -> list[nn.Module]:
    """The modules in the block list at a path, or those of a list of module names."""
    modules = dict(model.named_modules())
    names: list[Any]
    try:
        names = [blocks] if isinstance(blocks, str) else list(blocks)
    except TypeError:  # not iterable, or a tensor or an array without dimensions
        names = [blocks]
    for name in names:
        if not isinstance(name, str):
            raise InvalidInput(
                f"blocks= holds a {type(name).__name__}, not the name of a module.\n"
                "Its place in the stream is unknown. Pass names, as model.named_modules() gives them, or the path "
                f"of the list of blocks. {block_lists(model)}"
            )
        if name not in modules:
            raise UnknownName(unknown(f"module in {type(model).__name__}", name, [key for key in modules if key]))
    if isinstance(blocks, str):
        listed = list(modules[blocks].children())
        if not isinstance(modules[blocks], nn.ModuleList | nn.Sequential) or not listed:
            raise ModelMismatch(
                f"{blocks!r} is a {type(modules[blocks]).__name__}, not a list of blocks.\n"
                f"Name a ModuleList or Sequential, or pass a list of module names. {block_lists(model)}"
            )
        return listed
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(
            f"blocks= names {', '.join(twice)} more than once.\n"
            "One block would count as two layers, and every state after it as another. Name each block once, in order."
        )
    if not names:
        raise ModelMismatch("blocks=[] names no block.\nA stream without blocks has no depth to audit. Name some.")
    return [modules[name] for name in names]
