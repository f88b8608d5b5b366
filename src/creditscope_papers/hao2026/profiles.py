"""Alignment profiles of DFA while its reference is valid.

The long runs show the profile in their history, up to the last valid epoch; the short ones are audited before the
reference collapses.
"""

from __future__ import annotations

import math
from itertools import takewhile

from creditscope.diagnostics import diagnostics
from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.papers.quantities import measured
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.statistics.layers import mean
from creditscope.verdict import Finding, Measurement, Status

SHORT = 2  # epochs of the runs that are audited early
LONG = (30, 100)  # epochs of the others, in one budget or the other


def early_runs(archive: RunArchive, index: str, epochs: int | tuple[int, ...]) -> SelectedRuns:
    """DFA's runs in the study of the first epochs, with this index and length."""
    return archive.select("early_epochs", {"method.index": index, "epochs": epochs})


def last_valid_row(record: RunRecord) -> HistoryRow | None:
    """The last epoch before the reference collapsed; None if it never was valid."""
    limit = diagnostics["D2"].limit
    valid = list(takewhile(lambda row: limit.judge(Measurement(row.d2)) is Status.PASS, record.history))
    return valid[-1] if valid and valid[-1].gamma else None


def mean_size(row: HistoryRow | None, first: int) -> float:
    """Mean of |Γ_l| over the layers from `first` on; NaN without any."""
    return math.nan if row is None else mean([abs(value) for value in row.gamma[first:]])


def verb(status: Status) -> str:
    """What a diagnostic does, as a verb."""
    return {Status.PASS: "passes", Status.FIRES: "fires"}.get(status, f"is {status}")


def aggregation(record: RunRecord) -> Finding | None:
    """The finding of D5."""
    return record.report.findings.get("D5") if record.report is not None else None


def carried_by_one(record: RunRecord) -> bool | None:
    """Whether D5 fires; None where it does not decide."""
    finding = aggregation(record)
    return None if finding is None else finding.status.fired


def carried_by_layer_zero(record: RunRecord) -> bool | None:
    """Whether D5 fires and the layer with the largest Γ is layer 0."""
    alone = carried_by_one(record)
    return alone and best_layer(record) == 0


def best_layer(record: RunRecord) -> int | None:
    """The layer with the largest Γ; None where Γ was not measured."""
    gamma = measured(record, "gamma")
    layers = gamma.per_layer if gamma is not None else ()
    return max(range(len(layers)), key=layers.__getitem__) if layers else None


def aggregation_text(record: RunRecord) -> str:
    """The finding of D5 after a short run, in words."""
    finding = aggregation(record)
    if finding is None:
        return "D5 was not measured"
    ratio = "" if finding.value is None else f", R = {finding.value:.2f} without layer {best_layer(record)}"
    return f"D5 {verb(finding.status)}{ratio}, after {SHORT} epochs"
