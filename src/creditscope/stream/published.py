"""Streams of models with the published interface: embed, residual blocks and read-out, or `return_hidden=True`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from creditscope.errors import ModelMismatch
from creditscope.stream.block_pass import BlockCalls, BlockPass, residual
from creditscope.stream.hooks import HookedBlocks
from creditscope.stream.reading import Read
from creditscope.stream.states import Pass, Shifts, StagedStream, Stream, block_lists, called, logits_of
from creditscope.stream.values import first_tensor


class PublishedStream(StagedStream):
    """A model with the published interface that does not return its states."""

    def __init__(self, model: nn.Module, read: Read) -> None:
        super().__init__(model, read, PublishedStages(model))

    def verify(self, inputs: Any, logits: Tensor) -> None:
        """Refuse stages that, run one after the other, do not give the model's logits."""
        with torch.no_grad():
            own = logits_of(called(self.model, inputs))
        if own.shape != logits.shape or not torch.allclose(own, logits, rtol=1e-3, atol=1e-5, equal_nan=True):
            raise ModelMismatch(
                f"The embedding, blocks and read-out of {type(self.model).__name__} one after the other do not give "
                "the model's own logits.\n"
                "The states would be those of another network: the forward pass is not a chain of h + block(h). "
                f"Pass blocks= the path of its block list. {block_lists(self.model)}"
            )


class PublishedStages:
    """The stages of a model with the published interface: `embed`, residual `blocks`, (`out_ln`, `out_head`)."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.blocks = model.blocks

    def embedding(self, inputs: Tensor) -> Tensor:
        """h_0; a Linear embedding takes flattened samples."""
        embed = self._model.embed if hasattr(self._model, "embed") else self._model.patch_embed
        out: Tensor = embed(inputs.flatten(1) if isinstance(embed, nn.Linear) else inputs)
        return out

    def branch(self, index: int, state: Tensor) -> Tensor:
        """f_l(h_l)."""
        return first_tensor(self.blocks[index](state), f"blocks.{index}")

    def merge(self, index: int, state: Tensor, branch: Tensor) -> Tensor:
        """h_l + f_l(h_l)."""
        return state + branch

    def readout(self, state: Tensor) -> Tensor:
        """The head after the terminal norm, if there is one."""
        norm, head = ("out_ln", "out_head") if hasattr(self._model, "out_head") else ("norm", "head")
        normed = getattr(self._model, norm)(state) if hasattr(self._model, norm) else state
        out: Tensor = getattr(self._model, head)(normed)
        return out


class HiddenStream(Stream):
    """A model that returns its states itself: `model(x, return_hidden=True) -> (logits, [h_0..h_L])`."""

    def __init__(self, model: nn.Module, read: Read, blocks: Sequence[nn.Module]) -> None:
        super().__init__(model, read)
        self._listed = list(blocks)
        self._hooked = HookedBlocks(model, BlockCalls.once(blocks))
        self._branches: tuple[bool, ...] | None = None

    @property
    def blocks(self) -> list[nn.Module]:
        """The model's own list."""
        return self._listed

    def run(self, inputs: Any, shifts: Shifts | None = None) -> Pass:
        """The states as the model returns them; shifts enter through its blocks."""
        if shifts and self._branches is None:
            with torch.no_grad(), self._hooked.recording() as record:
                hiddens = self._answer(inputs)[1]
            self._branches = self._kinds(record, hiddens)
        with self._hooked.recording() as record, self._hooked.shifting(shifts or {}, self._branches or ()):
            logits, hiddens = self._answer(inputs)
        record.unchanged()
        return Pass(hiddens, hiddens, logits)

    def _kinds(self, record: BlockPass, hiddens: tuple[Tensor, ...]) -> tuple[bool, ...]:
        """Which blocks are residual, as in the published interface; any other one must read the state itself."""
        record.complete()
        kinds = tuple(map(residual, hiddens, record.outputs, hiddens[1:]))
        for index, (branch, entered, state) in enumerate(zip(kinds, record.inputs, hiddens, strict=False)):
            if not branch and entered is not state:
                raise ModelMismatch(
                    f"Block {index} of {type(self.model).__name__} neither reads h_{index} itself nor adds to it: "
                    f"h_{index + 1} is not h_{index} + block(h_{index}).\n"
                    "The effect of a changed state cannot be measured. Pass blocks= the path of its block list."
                )
        return kinds

    def _answer(self, inputs: Any) -> tuple[Tensor, tuple[Tensor, ...]]:
        answer = called(self.model, inputs, return_hidden=True)
        name = type(self.model).__name__
        if not (isinstance(answer, tuple | list) and len(answer) == 2 and isinstance(answer[1], tuple | list)):
            raise ModelMismatch(
                f"{name} called with return_hidden=True did not return (logits, [h_0..h_L]).\n"
                "Its states cannot be told apart. Return such a pair, or pass blocks= the path of its block list."
            )
        logits, hiddens = answer
        if len(hiddens) != len(self._hooked) + 1:
            raise ModelMismatch(
                f"{name} has {len(self._hooked)} blocks but returned {len(hiddens)} states, not h_0 to "
                f"h_{len(self._hooked)}.\n"
                "A state would stand for the wrong layer. Return the embedding's state and the one after every block."
            )
        return logits, tuple(hiddens)
