"""Findings of several seeds joined into one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from creditscope.verdict import Finding, Measurement, Status


def over_seeds(per_seed: Sequence[Finding | None]) -> Finding:
    """One finding for all seeds: the status that every seed has, else undecided; its value is the median over seeds."""
    present = [finding for finding in per_seed if finding is not None]
    first = present[0]
    answers = {(finding.status, finding.cause if finding.status is Status.FIRES else "") for finding in present}
    agreed = len(answers) == 1 and len(present) == len(per_seed)
    status, reason = (first.status, first.reason) if agreed else (Status.UNDECIDED, None)
    measured = [finding.measurement for finding in present if finding.measurement is not None]
    fires = sum(finding.status is Status.FIRES for finding in present)
    judged = any(finding.status is not Status.MEASURED for finding in present)
    note = f"fires on {fires} of {len(per_seed)} seeds" if judged else f"median of {len(present)} seeds"
    if first.note and (reason is not None or not measured):
        note = first.note  # why there is no answer
    if not measured:
        return replace(first, status=status, reason=reason, measurement=None, note=note)
    cause = first.cause if agreed else ""
    together = Measurement(*medians(measured), cause=cause, note=note, axis=measured[0].axis)
    return replace(first, status=status, reason=reason, measurement=together, note=note)


def medians(measured: Sequence[Measurement]) -> tuple[float, tuple[float, ...]]:
    """The median over seeds of a value and of every layer; no layers where the seeds have different numbers of them."""
    layers = [measurement.per_layer for measurement in measured]
    same = len({len(values) for values in layers}) == 1
    per_layer = tuple(_median(values) for values in zip(*layers, strict=True)) if same else ()
    return _median([measurement.value for measurement in measured]), per_layer


def _median(values: Sequence[float]) -> float:
    """The median; NaN if any value is NaN, since the result would then depend on their order."""
    return math.nan if any(math.isnan(value) for value in values) else median(values)
