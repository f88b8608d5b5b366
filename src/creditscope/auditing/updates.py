"""Γ^W in a report: measures per stage, and the table of every parameter tensor with its null and own reference."""

from __future__ import annotations

import math

from creditscope.evidence.updates import OwnAlignment, UpdateCosines, UpdateEvidence
from creditscope.records.report import UpdateRow, UpdateTable
from creditscope.statistics.layers import deep_mean, mean, spread
from creditscope.verdict import Measurement, Missing

NOT_CLAIMED = "alignment to BP is not claimed"


def update_measures(updates: UpdateEvidence | Missing) -> dict[str, Measurement]:
    """Γ^W of the stage that produces h_l, per tensor in `per_tensor`; its null; the whole network beside, unjudged."""
    if isinstance(updates, Missing):
        return {}
    own = updates.own
    claim = f"; reference: {updates.reference}, so {NOT_CLAIMED}" if updates.reference else ""
    note = (
        f"cosine of update and backprop gradient, median over {updates.batches} batches, {updates.images:,} images; "
        f"value: mean over blocks; read-out {own.stages[-1]:.3g}{claim}"
    )
    measures = {
        "gamma_update": Measurement(mean(own.stages[1:-1]), own.stages[:-1], note=note, per_tensor=dict(own.tensors)),
        "gamma_update_whole": Measurement(
            own.whole, note="as usually reported: one cosine over all parameters of the network; not judged"
        ),
    }
    if updates.null:
        by_stage = list(zip(*(draw.stages for draw in updates.null), strict=True))
        spreads = ", ".join(f"{spread(stage):.2g}" for stage in by_stage[:-1])
        kind = f"mean Γ^W of {len(updates.null)} draws with {updates.null_kind}; standard deviations {spreads}"
        centre = tuple(mean(stage) for stage in by_stage)
        names = {name: mean([draw.tensors[name] for draw in updates.null]) for name in own.tensors}
        measures["gamma_update_null"] = Measurement(mean(centre[1:-1]), centre[:-1], note=kind, per_tensor=names)
    return measures | _own_reference(updates)


def _own_reference(updates: UpdateEvidence) -> dict[str, Measurement]:
    """The cosines with what the method itself descends; the reason where they could not be computed."""
    aligned, name = updates.aligned, f"reference: {updates.reference}"
    if aligned is None:
        return {}
    if isinstance(aligned, Missing):
        return {"gamma_own": Measurement(math.nan, cause=aligned.reason.value, note=aligned.text)}
    measures, on = {}, f"{aligned.images:,} images"
    if aligned.layers:
        lost = f"; undefined for up to {aligned.undefined:,}" if aligned.undefined else ""
        without = f" without layer {', '.join(map(str, sorted(aligned.exact_layers)))}" if aligned.exact_layers else ""
        note = f"{name}; mean cosine of credit with it, {on}{lost}; value: mean over layers 1..L{without}"
        measures["gamma_own"] = Measurement(deep_mean(aligned.layers, aligned.exact_layers), aligned.layers, note=note)
    if aligned.updates is not None:
        stages = aligned.updates.stages
        note = f"{name}; cosine of update with it, median over {aligned.batches} batches, {on}; value: mean over blocks"
        measures["gamma_update_own"] = Measurement(
            mean(stages[1:-1]), stages[:-1], note=note, per_tensor=dict(aligned.updates.tensors)
        )
    return measures


def update_table(updates: UpdateEvidence | Missing) -> UpdateTable | None:
    """Every stage and every parameter tensor; None where no updates were compared."""
    if isinstance(updates, Missing):
        return None
    count = len(updates.own.stages)
    names = ["embedding", *(f"block {block}" for block in range(1, count - 1)), "read-out"]
    beside = updates.aligned.updates if isinstance(updates.aligned, OwnAlignment) else None
    tensors = [
        _row(name, updates.stage_of[name], updates, beside, tensor=name)
        for name in sorted(updates.own.tensors, key=lambda name: updates.stage_of[name])
    ]
    return UpdateTable(
        stages=tuple(_row(name, stage, updates, beside) for stage, name in enumerate(names)),
        tensors=tuple(tensors),
        whole=updates.own.whole,
        null_kind=updates.null_kind,
        draws=len(updates.null),
        batches=updates.batches,
        images=updates.images,
        reference=updates.reference,
    )


def _row(
    name: str, stage: int, updates: UpdateEvidence, beside: UpdateCosines | None, *, tensor: str | None = None
) -> UpdateRow:
    """One stage, or one tensor of it."""

    def of(cosines: UpdateCosines) -> float:
        return cosines.stages[stage] if tensor is None else cosines.tensors.get(tensor, math.nan)

    null = [of(draw) for draw in updates.null]
    return UpdateRow(
        name=name,
        stage=stage,
        cosine=of(updates.own),
        null=mean(null) if null else None,
        null_std=spread(null) if len(null) > 1 else None,
        own=None if beside is None else of(beside),
    )
