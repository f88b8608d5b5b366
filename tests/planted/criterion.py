"""When a network is broken in the sense of a calibrated diagnostic: decided by its answers in float32, not by the
number that the diagnostic itself computes.

    dead states   D11   A state is dead for an image if its loss stays the same, to the resolution of float32, when the
                        state is exchanged for that of another image, for each of four others. A network has dead states
                        if one of its states is dead for at least a tenth of the images.
    dead blocks   D12   A block is dead for an image if its loss stays the same, to the resolution of float32, when the
                        block is bypassed (h_{l+1} = h_l). A network has dead blocks if every block that keeps the shape
                        of the stream is dead for at least half of the images.
    exploded      D1:stream   The stream of a planted network was multiplied, and the reference gradient of a tenth of
                        its images fell below the floor of the usual cosine at some state (10 · eps = 1e-7 at 128 images
                        per batch), where that of the network it was planted in does not.

The resolution of float32 is 2⁻²³ · max(1, ℓ). The criterion holds for planted and for sound networks alike: a network
that is sound by construction counts as sound unless the claim of the diagnostic is true of it. It was written down
before the limits were calculated from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import undisturbed
from creditscope.stream.states import Stream
from creditscope.stream.trace import losses_at

RESOLUTION = torch.finfo(torch.float32).eps
OTHERS = 4  # other images whose states are tried
DEAD_IMAGES, BYPASSED_IMAGES = 0.1, 0.5


def unmoved(before: Tensor, after: Tensor) -> Tensor:
    """Which losses are the same to the resolution of float32; a loss that is not finite counts as moved."""
    return (after - before).abs() <= RESOLUTION * before.abs().clamp(min=1)


def broken(given: Mapping[str, Any]) -> dict[str, bool]:
    """Whether what `audit` is given has dead states or dead blocks."""
    stream = find_stream(given["model"], given.get("blocks"))
    states: list[Tensor] = []
    blocks: list[Tensor] = []
    with undisturbed(stream.model):
        for batch in given["batches"]:
            at_states, at_blocks = _unmoved_images(stream, batch)
            states.append(at_states)
            blocks.append(at_blocks)
    dead, bypassed = (torch.cat(parts, 1).double().mean(1) for parts in (states, blocks))
    return {
        "D11": bool((dead >= DEAD_IMAGES).any()),
        "D12": bool(len(bypassed)) and bool((bypassed >= BYPASSED_IMAGES).all()),
    }


def _unmoved_images(stream: Stream, batch: Batch) -> tuple[Tensor, Tensor]:
    """Per state, and per block that keeps the shape, the images of a batch whose loss does not move."""
    stream.settle(batch.inputs)
    with torch.no_grad():
        hiddens = [state.detach() for state in stream.run(batch.inputs).hiddens]
    before = losses_at(stream, batch, {})
    exchanged = [
        torch.stack(
            [
                unmoved(before, losses_at(stream, batch, {layer: state.roll(other, 0) - state}))
                for other in range(1, OTHERS + 1)
            ]
        ).all(0)
        for layer, state in enumerate(hiddens)
    ]
    bypassed = [
        unmoved(before, losses_at(stream, batch, {layer + 1: hiddens[layer] - hiddens[layer + 1]}))
        for layer in range(len(hiddens) - 1)
        if hiddens[layer].shape == hiddens[layer + 1].shape
    ]
    return torch.stack(exchanged), torch.stack(bypassed) if bypassed else torch.zeros(0, len(before), dtype=torch.bool)
