"""ρ: states are moved in random directions until the correlation of predicted and measured changes is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from creditscope.batch import Batch
from creditscope.probes.correlation import Pairs
from creditscope.probes.images import ROWS, Piece, lengths, losses_from, sizes, totals
from creditscope.progress import steps
from creditscope.stream.states import Stream
from creditscope.stream.trace import LossFunction, Trace, capture

FEWEST, DIRECTIONS = 4, 32  # per image: the first draws, and the most
STEP = 1e-3  # of a state's own norm, or absolute as published

Widened = Callable[[Batch], Batch]


def correlate(
    stream: Stream,
    pieces: Sequence[Piece],
    widened: Widened,
    loss_fn: LossFunction,
    generator: torch.Generator,
    *,
    absolute: bool,
) -> list[Pairs | None]:
    """Pairs of every layer, from 4, 8, 16 or 32 directions per image; None where no state can be moved.

    A layer has enough directions once ρ is known to ± 0.01.
    """
    pairs: list[Pairs | None] = [None] * len(pieces[0].credit)
    pending, drawn = list(filter(stream.certain, range(len(pairs)))), 0
    while pending and drawn < DIRECTIONS:
        count = drawn or FEWEST
        fresh: dict[int, Pairs] = {}
        for piece in steps(f"moving states {'by the published step' if absolute else 'in proportion'}", pieces):
            wide = Piece(widened(piece.batch), piece.credit, piece.gradients)
            trace = capture(stream, wide.batch, loss_fn)
            for layer in pending:
                step = None if absolute else STEP * lengths(stream, trace.hiddens[layer])
                found = perturb(stream, wide, trace, layer, step, (count, generator, loss_fn))
                fresh[layer] = fresh[layer].beside(found) if layer in fresh else found
        for layer, found in fresh.items():
            known = pairs[layer]
            pairs[layer] = found if known is None else known.below(found)
        drawn += count
        pending = [layer for layer in pending if not pairs[layer].precise]  # type: ignore[union-attr]
    return pairs


def perturb(
    stream: Stream,
    piece: Piece,
    trace: Trace,
    layer: int,
    step: torch.Tensor | None,
    drawing: tuple[int, torch.Generator, LossFunction],
) -> Pairs:
    """⟨a, ε v⟩, ⟨g, ε v⟩ and ℓ(h + ε v) - ℓ(h) for random unit directions v of every image.

    step     ε of each image; None for 1e-3 as published
    drawing  how many directions, from which generator, and the loss
    """
    directions, generator, loss_fn = drawing
    state = trace.hiddens[layer]
    credit, gradient = (side[layer].to(state.dtype) for side in (piece.credit, piece.gradients))
    step = torch.full_like(sizes(credit), STEP) if step is None else step
    copies, rows = max(1, min(directions, ROWS // len(piece))), []
    for start in range(0, directions, copies):
        count = min(copies, directions - start)
        noise = torch.randn(count, *credit.shape, generator=generator).to(credit)
        length = sizes(noise.flatten(0, 1)).view(count, -1)
        moves = noise * (step / length).view(count, len(piece), *[1] * (credit.dim() - 1)).to(credit.dtype)
        measured = losses_from(stream, piece.batch, layer, state, moves, loss_fn) - totals(trace.losses)
        rows.append([(moves * side).flatten(2).sum(2) for side in (credit, gradient)] + [measured])
    drawn = (torch.cat(parts).double().cpu() for parts in zip(*rows, strict=True))
    share = step.square() / credit[0].numel()  # E(εv)(εv)ᵀ = ε²/d·I
    a, g = credit.double().flatten(1), gradient.double().flatten(1)
    moments = (share * product.sum(1) for product in (a * g, a * a, g * g))
    return Pairs(*drawn, *(moment.cpu() for moment in moments))
