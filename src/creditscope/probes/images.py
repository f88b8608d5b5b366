"""The images that the probes use, and the losses after moving a state of theirs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from creditscope.batch import Batch, each_tensor
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, per_sample

PROBE_IMAGES = 1024  # probes that cost more than one pass use the first ones
ROWS = 1024  # copies of a batch that run together have at most this many rows, unless one copy has more


@dataclass(frozen=True, slots=True)
class Piece:
    """A batch of probe images, with the credit and gradient vectors at its states."""

    batch: Batch
    credit: tuple[Tensor, ...]
    gradients: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.batch.labels)


def losses_from(
    stream: Stream, batch: Batch, layer: int, state: Tensor, moves: Tensor, loss_fn: LossFunction
) -> Tensor:
    """Each sample's loss with h_layer moved in every copy: moves (copies, N, ...) -> (copies, N)."""
    copies, count = moves.shape[:2]
    repeated = state.expand(copies, *state.shape).flatten(0, 1)
    shift = stream.reading.widened(moves.flatten(0, 1), repeated)
    with torch.no_grad():
        logits = stream.onward(layer, repeated + shift)
        if logits is None:
            logits = stream.run(each_tensor(batch.inputs, lambda x: _again(x, copies, count)), {layer: shift}).logits
        losses = per_sample(loss_fn, logits, _again(batch.labels, copies, count))
    return totals(losses).view(copies, count)


def totals(losses: Tensor) -> Tensor:
    """One loss per sample, summed over positions where the loss function gives one per position."""
    return losses if losses.dim() == 1 else losses.flatten(1).sum(1)


def per_image(values: Tensor, like: Tensor) -> Tensor:
    """One value per sample, in a shape that broadcasts with `like`."""
    return values.view(-1, *[1] * (like.dim() - 1))


def lengths(stream: Stream, state: Tensor) -> Tensor:
    """The length of each sample's state by the read rule, in float64; of all its positions together if all count."""
    rows, factor = stream.reading.rows(state)
    return sizes(rows) * factor


def sizes(vectors: Tensor) -> Tensor:
    """‖·‖₂ of each sample in float64."""
    norms: Tensor = torch.linalg.vector_norm(vectors.flatten(1), dim=1, dtype=torch.float64)
    return norms


def _again(tensor: Tensor, copies: int, count: int) -> Tensor:
    """The tensor repeated along its batch axis, if it has one."""
    return tensor.repeat(copies, *[1] * (tensor.dim() - 1)) if tensor.dim() and len(tensor) == count else tensor
