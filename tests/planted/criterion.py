"""When a network is broken in the sense of a calibrated diagnostic: decided by its answers, not by its gradients.

    dead states   D11   A state is dead for an image if its loss stays the same, to the resolution of float32, when the
                        state is exchanged for that of another image, for each of up to four others whose state differs
                        by at least a tenth of its size. A network has dead states if one of its states is dead for at
                        least a tenth of the images.
    dead blocks   D12   A block is dead for an image if its loss stays the same, to the resolution of float32, when the
                        block is bypassed (h_{l+1} = h_l). A network has dead blocks if every block that keeps the shape
                        of the stream is dead for at least half of the images.
    exploded      D1:stream   The stream of a planted network was multiplied, and the reference gradient of a tenth of
                        its images fell below the floor of the usual cosine at some state (10 · eps = 1e-7 at 128 images
                        per batch), where that of the network it was planted in does not.

The resolution of float32 is 2⁻²³ · max(1, ℓ); the change itself is computed in float64, so that rounding inside the
network is not taken for independence. The criterion holds for planted and for sound networks alike: a network that is
sound by construction counts as sound unless the claim of the diagnostic is true of it. The first 256 images are asked.

It was written down before the limits were calculated from it, and amended once afterwards: the first version computed
in float32 and also counted exchanges of equal states. So it called states dead that are the same for every image, or
whose influence is lost by rounding in a later block; the loss does depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from creditscope.batch import Batch
from creditscope.stream.find import find_stream
from creditscope.stream.isolation import as_float64, float64_copies, undisturbed
from creditscope.stream.states import Stream
from creditscope.stream.trace import losses_at

RESOLUTION = torch.finfo(torch.float32).eps
OTHERS = 4  # other images whose states are tried
DIFFERENT = 0.1  # of the state's own size: an exchange of equal states tests nothing
DEAD_IMAGES, BYPASSED_IMAGES = 0.1, 0.5
BATCHES = 2  # of 128 images


def unmoved(before: Tensor, after: Tensor) -> Tensor:
    """Which losses are the same to the resolution of float32; a loss that is not finite counts as moved."""
    return (after - before).abs() <= RESOLUTION * before.abs().clamp(min=1)


def broken(given: Mapping[str, Any]) -> dict[str, bool]:
    """Whether what `audit` is given has dead states or dead blocks."""
    stream = find_stream(given["model"], given.get("blocks"))
    states: list[Tensor] = []
    blocks: list[Tensor] = []
    with undisturbed(stream.model), float64_copies(stream.model):
        for batch in given["batches"][:BATCHES]:
            at_states, at_blocks = _unmoved_images(stream, as_float64(batch))
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
    exchanged = [_dead_images(stream, batch, layer, state, before) for layer, state in enumerate(hiddens)]
    bypassed = [
        unmoved(before, losses_at(stream, batch, {layer + 1: hiddens[layer] - hiddens[layer + 1]}))
        for layer in range(len(hiddens) - 1)
        if hiddens[layer].shape == hiddens[layer + 1].shape
    ]
    return torch.stack(exchanged), torch.stack(bypassed) if bypassed else torch.zeros(0, len(before), dtype=torch.bool)


def _dead_images(stream: Stream, batch: Batch, layer: int, state: Tensor, before: Tensor) -> Tensor:
    """The images whose loss no exchange of this state moves, of those that have a different state to exchange."""
    tested, moved = (torch.zeros(len(before), dtype=torch.bool) for _ in range(2))
    size = stream.reading.rows(state)[0].norm(dim=-1)
    for other in range(1, OTHERS + 1):
        shift = state.roll(other, 0) - state
        different = stream.reading.rows(shift)[0].norm(dim=-1) >= DIFFERENT * size
        tested |= different
        moved |= different & ~unmoved(before, losses_at(stream, batch, {layer: shift}))
        if moved.all():
            break
    return tested & ~moved
