"""How are the states of any model's stream seen, shifted and read?"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from creditscope.errors import InvalidInput, ModelMismatch, UnknownName
from creditscope.hooks import HookedBlocks
from creditscope.registry import unknown

Read = Literal["auto", "first", "mean", "all"] | int
Shifts = Mapping[int, Tensor]


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: the states h_0..h_L, the tensors to differentiate by for them, and the logits."""

    hiddens: tuple[Tensor, ...]
    anchors: tuple[Tensor, ...]
    logits: Tensor


class Stream(ABC):
    """A model together with the way to see its states."""

    def __init__(self, model: nn.Module, read: Read) -> None:
        self.model = model
        self.rule = read

    @abstractmethod
    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One forward pass, with `shifts[l]` added to h_l on the way."""

    def vectors(self, state: Tensor) -> Tensor:
        """What stands for a state: (N, d), or (N, positions, d) if every position counts.

        A flat state stands for itself; of a token state (N, T, d) one token, the mean or all; a convolutional state
        (N, C, H, W) is averaged over H and W. Credit and gradients are read by the same linear map.
        """
        if state.dim() == 2:
            return state
        if state.dim() == 4:
            positions = state.flatten(2).transpose(1, 2)
            return positions if self.rule == "all" else positions.mean(1)
        if state.dim() != 3:
            raise ModelMismatch(
                f"A state of shape {tuple(state.shape)} is neither (N, d), (N, tokens, d) nor (N, C, H, W).\n"
                "Its norm along the feature axis is not defined. Name blocks whose states have one of these shapes."
            )
        if self.rule == "all":
            return state
        if self.rule == "mean":
            return state.mean(1)
        token = self.rule if isinstance(self.rule, int) else 0
        if not -state.shape[1] <= token < state.shape[1]:
            raise InvalidInput(
                f"read={token} asks for a token that a state of {state.shape[1]} tokens does not have.\n"
                "Pass a token index within the sequence, or 'first', 'mean' or 'all'."
            )
        return state[:, token]


class StagedStream(Stream):
    """Embedding, blocks and read-out run one after the other; nothing is differentiated before h_0."""

    def __init__(self, model: nn.Module, read: Read, stages: Any) -> None:
        super().__init__(model, read)
        self._stages = stages

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """h_0 is cut from the embedding: it is where differentiation ends."""
        shifts = shifts or {}
        with torch.no_grad():
            state = self._stages.embedding(inputs)
        state = _shifted(state.detach(), shifts.get(0)).requires_grad_(torch.is_grad_enabled())
        hiddens = [state]
        for index in range(len(self._stages.blocks)):
            state = self._stages.merge(index, state, self._stages.branch(index, state))
            state = _shifted(state, shifts.get(index + 1))
            hiddens.append(state)
        return Pass(tuple(hiddens), tuple(hiddens), self._stages.readout(state))


class ContractStages:
    """The stages of a model of the published contract: `embed`, residual `blocks`, (`out_ln`, `out_head`)."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.blocks = model.blocks

    def embedding(self, inputs: Tensor) -> Tensor:
        """h_0; a Linear embedding takes flattened samples."""
        embed = self._model.embed
        out: Tensor = embed(inputs.flatten(1) if isinstance(embed, nn.Linear) else inputs)
        return out

    def branch(self, index: int, state: Tensor) -> Tensor:
        """f_l(h_l)."""
        return first_tensor(self.blocks[index](state), f"blocks.{index}")

    def merge(self, index: int, state: Tensor, branch: Tensor) -> Tensor:
        """h_l + f_l(h_l)."""
        return state + branch

    def readout(self, state: Tensor) -> Tensor:
        """The head after the terminal norm."""
        norm, head = ("out_ln", "out_head") if hasattr(self._model, "out_head") else ("norm", "head")
        out: Tensor = getattr(self._model, head)(getattr(self._model, norm)(state))
        return out


class HiddenStream(Stream):
    """A model that returns its states itself: `model(x, return_hidden=True) -> (logits, [h_0..h_L])`."""

    def __init__(self, model: nn.Module, read: Read, blocks: Sequence[nn.Module]) -> None:
        super().__init__(model, read)
        self._hooked = HookedBlocks(blocks)

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """The states as the model gives them; shifts enter through its residual blocks."""
        leaf = inputs
        if isinstance(inputs, Tensor) and inputs.is_floating_point() and torch.is_grad_enabled():
            leaf = inputs.detach().requires_grad_()
        with self._hooked.shifting(shifts or {}, branches=True):
            logits, hiddens = self.model(leaf, return_hidden=True)
        return Pass(tuple(hiddens), tuple(hiddens), logits)


class HookStream(Stream):
    """Any module with named blocks: h_l is the input of block l, h_L what leaves the last one.

    Where input + output of every block equals the next input, the blocks are branches of a residual stream and
    h_L = input + output; else h_L is the last output.
    """

    def __init__(self, model: nn.Module, read: Read, blocks: Sequence[nn.Module]) -> None:
        super().__init__(model, read)
        self._hooked = HookedBlocks(blocks)
        self._branches: bool | None = None

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """One call of the model with hooks that are gone when it returns."""
        if self._branches is None:
            with torch.no_grad(), self._hooked.recording() as seen:
                self.model(inputs)
            self._branches = seen.branches()
        with self._hooked.recording() as seen, self._hooked.shifting(shifts or {}, branches=self._branches):
            logits = logits_of(self.model(inputs))
        states, last = seen.states(), seen.outputs[-1]
        deepest = states[-1] + last if self._branches else last
        return Pass((*states, deepest), (*states, last), logits)


def find_stream(model: nn.Module, blocks: str | Sequence[str] | None = None, read: Read = "auto") -> Stream:
    """The stream of a model: of our own kind, of the published contract, or of the blocks that are named."""
    if read not in ("auto", "first", "mean", "all") and not isinstance(read, int):
        raise InvalidInput(
            f"read={read!r} does not say which vector stands for a state with tokens.\n"
            "Pass 'auto', 'first', 'mean', 'all' or a token index."
        )
    if blocks is not None:
        return HookStream(model, read, named_blocks(model, blocks))
    if read == "auto":
        read = getattr(model, "token", "auto")
    if all(callable(getattr(model, name, None)) for name in ("embedding", "branch", "merge", "readout")):
        return StagedStream(model, read, model)
    listed = getattr(model, "blocks", None)
    if isinstance(listed, nn.ModuleList | nn.Sequential):
        if "return_hidden" in inspect.signature(model.forward).parameters:
            return HiddenStream(model, read, list(listed))
        if hasattr(model, "embed") and (hasattr(model, "out_head") or hasattr(model, "head")):
            return StagedStream(model, read, ContractStages(model))
    raise ModelMismatch(
        f"{type(model).__name__} does not show its stream: it has neither `return_hidden=True` nor "
        "embed, blocks and read-out.\n"
        "Without the states between the blocks there is nothing to audit. "
        f"Pass blocks= the path of its block list. {_candidates(model)}"
    )


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
                f"Name a ModuleList or Sequential, or pass a list of module names. {_candidates(model)}"
            )
        return found
    if not names:
        raise ModelMismatch("blocks=[] names no block.\nA stream without blocks has no depth to audit. Name some.")
    return [modules[name] for name in names]


def first_tensor(output: Any, where: str) -> Tensor:
    """The tensor that a block returned, the first one if it returned several."""
    from creditscope.hooks import first_tensor as first

    return first(output, where)


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returned: a tensor, the first of a tuple, or `.logits`."""
    return first_tensor(getattr(output, "logits", output), "the model")


def _shifted(state: Tensor, shift: Tensor | None) -> Tensor:
    return state if shift is None else state + shift


def _candidates(model: nn.Module) -> str:
    lists = [
        f"{name} ({len(module)} x {type(next(iter(module))).__name__})"
        for name, module in model.named_modules()
        if name and isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1
    ]
    return f"Its lists of modules: {', '.join(lists[:8])}." if lists else "It has no list of modules."
