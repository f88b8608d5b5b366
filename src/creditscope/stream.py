"""What is a stream of states, and which vector stands for a state?"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from creditscope.batch import each_tensor
from creditscope.errors import InvalidInput, ModelMismatch
from creditscope.hooks import changed_in_place, first_tensor

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

    def certain(self, layer: int) -> bool:
        """Whether a shift of h_layer reaches everything that the model does with it."""
        return True

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """Logits from h_layer = state on, without what lies below; None where the model can only be run whole."""
        return None

    def verify(self, inputs: Any, logits: Tensor) -> None:  # noqa: B027 (most streams run the model itself)
        """Refuse a stream whose logits are not the model's own."""

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
            version = state._version
            branch = self._stages.branch(index, state)
            if state._version != version:
                raise changed_in_place(f"input of block {index}")
            state = _shifted(self._stages.merge(index, state, branch), shifts.get(index + 1))
            hiddens.append(state)
        return Pass(tuple(hiddens), tuple(hiddens), self._stages.readout(state))

    def onward(self, layer: int, state: Tensor) -> Tensor | None:
        """The blocks from `layer` on, and the read-out."""
        for index in range(layer, len(self._stages.blocks)):
            state = self._stages.merge(index, state, self._stages.branch(index, state))
        logits: Tensor = self._stages.readout(state)
        return logits


def called(model: nn.Module, inputs: Any, **options: Any) -> Any:
    """What the model returns; a tuple of inputs are its arguments, a dict its keyword arguments.

    It gets copies of floating-point inputs: it may write into them, and its states can be differentiated by.
    """
    copies = each_tensor(inputs, _rooted)
    if isinstance(copies, dict):
        return model(**copies, **options)
    return model(*copies, **options) if isinstance(copies, tuple | list) else model(copies, **options)


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returned: a tensor, the first of a tuple, `.logits` or ["logits"]."""
    named = output.get("logits", output) if isinstance(output, Mapping) else getattr(output, "logits", output)
    return first_tensor(named, "The model")


def block_lists(model: nn.Module) -> str:
    """A sentence about the lists of modules that may be a model's blocks."""
    lists = [
        f"{name} ({len(module)} x {type(next(iter(module))).__name__})"
        for name, module in model.named_modules()
        if name and isinstance(module, nn.ModuleList | nn.Sequential) and len(module) > 1
    ]
    return f"Its lists of modules: {', '.join(lists[:8])}." if lists else "It has no list of modules."


def _rooted(tensor: Tensor) -> Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().requires_grad_(torch.is_grad_enabled()).clone()


def _shifted(state: Tensor, shift: Tensor | None) -> Tensor:
    return state if shift is None else state + shift
