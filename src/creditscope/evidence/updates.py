"""Γ^W: cosines of what a method hands the optimiser with the backprop gradient, per tensor, per stage, and whole."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Literal

import torch
from torch import Tensor

from creditscope.evidence.alignment import exact_cosines
from creditscope.evidence.credit import Layers
from creditscope.verdict import Missing, Reason

NO_UPDATES = Missing(Reason.NOT_GIVEN, "no updates were given")


@dataclass(frozen=True, slots=True)
class UpdateCosines:
    """cos(u, b) of one batch, or a median over batches; NaN = undefined (no update, or a vector of zeros).

    tensors  by parameter name
    stages   of the embedding, every block and the read-out: the tensors of a stage laid end to end
    whole    all tensors laid end to end: as usually reported
    """

    tensors: Mapping[str, float]
    stages: Layers
    whole: float


@dataclass(frozen=True, slots=True)
class OwnAlignment:
    """Cosines with what the method itself descends, in place of the loss.

    updates  of its updates with that gradient; None if the reference is a credit at the states alone
    layers   of its credit with that of the reference, mean over images; empty for a method without credit at the states
    undefined  images without such a cosine, at most over the layers
    exact_layers  whose credit is the gradient by construction
    """

    updates: UpdateCosines | None
    layers: Layers
    undefined: int
    batches: int
    images: int
    exact_layers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class UpdateEvidence:
    """Γ^W over the batches, and by chance.

    null       Γ^W of every draw, on the batches that `on_null` was measured on
    on_null    Γ^W of the method itself on these batches
    null_kind  what was drawn: fresh feedback, or other labels
    reference  what the method descends where that is not the loss; empty: the loss itself
    aligned    with that reference; None if it is the loss
    stage_of   the stage of every parameter: 0 the embedding, then the blocks, then the read-out
    """

    own: UpdateCosines
    batches: int
    images: int
    null: tuple[UpdateCosines, ...] = ()
    on_null: UpdateCosines | None = None
    null_kind: Literal["fresh feedback", "permuted labels"] = "permuted labels"
    reference: str = ""
    aligned: OwnAlignment | Missing | None = None
    stage_of: Mapping[str, int] = field(default_factory=dict)


def update_cosines(
    updates: Mapping[str, Tensor], gradients: Mapping[str, Tensor], stages: Mapping[str, int], count: int
) -> UpdateCosines:
    """cos(u_θ, b_θ) without eps, in float64, of plain tensors by parameter name.

    updates    u_θ; a parameter without one has an undefined cosine, and counts as zeros in its stage
    gradients  b_θ, the backprop gradient of the mean loss of the same batch
    stages     the stage of every parameter, below `count`
    """
    pairs = {name: (updates.get(name, torch.zeros_like(b)), b) for name, b in gradients.items()}
    by_stage = [[pair for name, pair in pairs.items() if stages[name] == stage] for stage in range(count)]
    return UpdateCosines(
        {name: _cosine([pair]) for name, pair in pairs.items()},
        tuple(_cosine(mine) for mine in by_stage),
        _cosine(list(pairs.values())),
    )


def median_cosines(batches: Sequence[UpdateCosines]) -> UpdateCosines:
    """The median over the batches (the lower middle) of every cosine, among those that are defined."""
    first = batches[0]
    return UpdateCosines(
        {name: _median([batch.tensors[name] for batch in batches]) for name in first.tensors},
        tuple(_median(stage) for stage in zip(*(batch.stages for batch in batches), strict=True)),
        _median([batch.whole for batch in batches]),
    )


def _cosine(pairs: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Of the tensors laid end to end; NaN if there are none."""
    if not pairs:
        return math.nan
    laid = [torch.cat([tensor.detach().double().flatten() for tensor in side]) for side in zip(*pairs, strict=True)]
    return exact_cosines(laid[0].to(laid[1].device), laid[1]).item()


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return median_low(known) if known else math.nan
