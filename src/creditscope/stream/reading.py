"""The read rule: which numbers of a state with positions stand for it.

A flat state (N, d) stands for itself. Of tokens (N, T, d) one is read, or all are pooled, or every position counts for
itself; maps (N, C, H, W) and volumes (N, C, D, H, W) are pooled unless every position counts. Where they are pooled:

    length of a state      √(mean over positions of ‖h_p‖²): the same at any resolution, not blind to zero-mean maps
    gradient and credit    Σ over positions: what the loss feels when every position moves alike
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from creditscope.errors import InvalidInput, ModelMismatch

Read = Literal["auto", "first", "mean", "all"] | int


@dataclass(frozen=True, slots=True)
class Reading:
    """How the states of one stream are read; "auto" reads the first token until the read-out is known."""

    rule: Read

    def vectors(self, tensor: Tensor) -> Tensor:
        """The direction that stands for a gradient or a credit signal: (N, d), or (N, positions, d) if all count."""
        if self._pools(tensor):
            return tensor.flatten(2).sum(2) if _is_map(tensor) else tensor.sum(1)
        return self._unpooled(tensor)

    def rows(self, state: Tensor) -> tuple[Tensor, float]:
        """Rows whose norms, times the factor, are the lengths of the states."""
        if self._pools(state):
            positions = state[0, 0].numel() if _is_map(state) else state.shape[1]
            return state.flatten(1), positions**-0.5
        return self._unpooled(state), 1.0

    def leaves_tokens(self, states: Sequence[Tensor]) -> bool:
        """Whether one token of each state is read and others are not."""
        return self.rule not in ("mean", "all") and all(state.dim() == 3 and state.shape[1] > 1 for state in states)

    def widened(self, vectors: Tensor, state: Tensor) -> Tensor:
        """A change of the state that moves what is read by `vectors`: one token, or every pooled position alike."""
        if self._pools(state):
            spread = vectors.reshape(*state.shape[:2], *[1] * (state.dim() - 2)) if _is_map(state) else vectors[:, None]
            return spread.expand_as(state)
        if _is_map(state):
            return vectors.transpose(1, 2).reshape(state.shape)
        if state.dim() == 2 or self.rule == "all":
            return vectors
        shift = torch.zeros_like(state)
        shift[:, self._token(state)] = vectors
        return shift

    def _pools(self, tensor: Tensor) -> bool:
        return (_is_map(tensor) and self.rule != "all") or (tensor.dim() == 3 and self.rule == "mean")

    def _unpooled(self, tensor: Tensor) -> Tensor:
        if tensor.dim() == 2:
            return tensor
        if _is_map(tensor):
            return tensor.flatten(2).transpose(1, 2)
        if tensor.dim() != 3:
            raise ModelMismatch(
                f"A state of shape {tuple(tensor.shape)} is none of (N, d), (N, tokens, d), (N, C, H, W) and "
                "(N, C, D, H, W).\n"
                "Its norm along the feature axis is not defined. Name blocks whose states have one of these shapes."
            )
        return tensor if self.rule == "all" else tensor[:, self._token(tensor)]

    def _token(self, tensor: Tensor) -> int:
        token = self.rule if isinstance(self.rule, int) else 0
        if not -tensor.shape[1] <= token < tensor.shape[1]:
            raise InvalidInput(
                f"read={token} is outside a state of {tensor.shape[1]} tokens.\n"
                "Pass a token index within the sequence, or 'first', 'mean' or 'all'."
            )
        return token


def _is_map(state: Tensor) -> bool:
    """Whether a state has channels first and two or three axes of positions."""
    return state.dim() in (4, 5)


class ReadsStates(Protocol):
    """Whatever knows how its states are read: the stream of a model, or arrays."""

    @property
    def reading(self) -> Reading:
        """How states with positions are read."""


def consumed_token(used: Tensor) -> Read | None:
    """The token of (N, tokens) that alone is used, "mean" if several are; None if none is."""
    if not bool(used.any()):
        return None
    if bool((used.sum(1) != 1).any()):
        return "mean"
    token = used.float().argmax(1)
    if bool((token != token[0]).any()):
        raise ModelMismatch(
            f"The read-out takes one token of each sample, but not always the same one: {token[:8].tolist()}.\n"
            "No single position represents the state. Pass batches whose samples end at the same token, or read= "
            "'mean', 'all' or a token index."
        )
    position = int(token[0])
    return "first" if position == 0 else -1 if position == used.shape[1] - 1 else position
