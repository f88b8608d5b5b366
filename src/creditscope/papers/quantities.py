"""Which numbers of a run stand in a table?  Each is read from the run's record alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from creditscope.diagnostics import diagnostics
from creditscope.papers.comparison import Kind
from creditscope.papers.published import LARGER, USUAL
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.statistics.layers import mean
from creditscope.verdict import Measurement, Status


@dataclass(frozen=True, slots=True)
class Quantity:
    """A name for the data file, a heading, the kind that decides how it is compared, and where a record has it.

    A quantity that is computed from several runs at once stands in no record.
    """

    name: str
    heading: str
    kind: Kind
    read: Callable[[RunRecord], float] = lambda record: math.nan


def _measure(name: str) -> Callable[[RunRecord], float]:
    return lambda record: _value(_measured(record, name))


def _layer(name: str, layer: int) -> Callable[[RunRecord], float]:
    def read(record: RunRecord) -> float:
        found = _measured(record, name)
        return found.per_layer[layer] if found is not None and layer < len(found.per_layer) else math.nan

    return read


def _finding(code: str) -> Callable[[RunRecord], float]:
    def read(record: RunRecord) -> float:
        finding = record.report.findings.get(code) if record.report is not None else None
        return _value(finding.measurement if finding is not None else None)

    return read


def _measured(record: RunRecord, name: str) -> Measurement | None:
    return record.report.measures.get(name) if record.report is not None else None


def _value(found: Measurement | None) -> float:
    return found.value if found is not None else math.nan


def _deep_with_exact(record: RunRecord) -> float:
    """Mean over layers 1..L, an exact layer included, as published."""
    found = _measured(record, "gamma")
    return mean(found.per_layer[1:]) if found is not None else math.nan


def _null_std(record: RunRecord) -> float:
    """The deep mean's spread over fresh draws, from D6's z = (Γ - mean)/std; NaN where z is too small to divide by."""
    z = _finding("D6")(record)
    if not abs(z) > diagnostics["D6"].limit.at:
        return math.nan
    return (_measure("gamma")(record) - _measure("gamma_null")(record)) / z


def _loss_drop(record: RunRecord) -> float:
    """Training loss of the first epoch minus that of the last."""
    return record.history[0].loss - record.history[-1].loss if len(record.history) > 1 else math.nan


def _first(code: str, read: Callable[[HistoryRow], float]) -> Callable[[RunRecord], float]:
    """The first epoch, counted from 1, after which a diagnostic fires; infinity if it does not within the run.

    NaN where it did not fire but the run stopped early, or a row is undefined: then nobody knows.
    """

    def first(record: RunRecord) -> float:
        answers = {row.epoch + 1.0: diagnostics[code].limit.judge(Measurement(read(row))) for row in record.history}
        fired = [epoch for epoch, status in answers.items() if status is Status.FIRES]
        silent = bool(answers) and record.diverged is None and set(answers.values()) == {Status.PASS}
        return fired[0] if fired else math.inf if silent else math.nan

    return first


def at_epoch(name: str, heading: str, kind: Kind, epoch: int, read: Callable[[HistoryRow], float]) -> Quantity:
    """A number of the history after so many epochs."""

    def found(record: RunRecord) -> float:
        return next((read(row) for row in record.history if row.epoch + 1 == epoch), math.nan)

    return Quantity(f"{name}_{epoch}", f"{heading} after epoch {epoch}", kind, found)


def layer_gamma(layer: int) -> Callable[[HistoryRow], float]:
    """Γ of one layer of a row of the history; NaN where it was not measured."""
    return lambda row: row.gamma[layer] if layer < len(row.gamma) else math.nan


def deep_gamma(row: HistoryRow) -> float:
    """Mean Γ over layers 1..L of a row of the history."""
    return mean(row.gamma[1:])


ACCURACY = Quantity("accuracy", "accuracy", "share", lambda record: record.accuracy)
GROWTH = Quantity("growth", "largest growth (D1)", "scale", _finding("D1"))
DEEPEST_STATE = Quantity("h_L", "‖h_L‖", "scale", _measure("hidden_norm"))
DEEPEST_GRADIENT = Quantity("g_L", "‖g_L‖ at N = 128 (D2)", "scale", _finding("D2"))
DRIFT = Quantity("drift", "drift (D4)", "cosine", _finding("D4"))
DEEP_GAMMA = Quantity("deep_gamma", "deep Γ", "cosine", _deep_with_exact)
DEEP_GAMMA_INEXACT = Quantity("deep_gamma_inexact", "deep Γ without exact layers", "cosine", _measure("gamma"))
REPORTED_GAMMA = Quantity("reported_gamma", "Γ as usually reported", "cosine", _measure("gamma_clamped_mean"))
NULL_MEAN = Quantity("null_mean", "deep Γ with fresh feedback", "cosine", _measure("gamma_null"))
NULL_STD = Quantity("null_std", "its spread over 20 draws", "spread", _null_std)
SURVIVES = Quantity("survives", "R, what is left without the best layer (D5)", "size", _finding("D5"))
Z = Quantity("z", "z of deep Γ (D6)", "count", _finding("D6"))
RHO = Quantity("rho", "deep ρ, relative step", "cosine", _measure("rho"))
RHO_ABSOLUTE = Quantity("rho_absolute", "deep ρ as published", "cosine", _measure("rho_absolute"))
RHO_ABSOLUTE_BP = Quantity(
    "rho_absolute_bp", "the gradient's own ρ as published", "cosine", _measure("rho_absolute_bp")
)
NUDGE = Quantity("nudge", "deep nudging, relative step", "size", _measure("nudge"))
NUDGE_ABSOLUTE = Quantity("nudge_absolute", "deep nudging as published", "size", _measure("nudge_absolute"))
LOSS_DROP = Quantity("loss_drop", "fall of the training loss", "size", _loss_drop)
BLOCK_DRIFT = Quantity("block_drift", "drift of the blocks' weights", "scale", _measure("weight_drift"))
EMBED_DRIFT = Quantity("embed_drift", "drift of the embedding's weights", "scale", _layer("weight_drift", 0))
FIRST_D1 = Quantity("first_D1", "first epoch of D1", "epoch", _first("D1", lambda row: row.d1))
FIRST_D2 = Quantity("first_D2", "first epoch of D2", "epoch", _first("D2", lambda row: row.d2))
FIRST_D2_LARGER = Quantity(
    f"first_D2_{LARGER}",
    f"first epoch of D2 at N = {LARGER:,}",
    "epoch",
    _first("D2", lambda row: row.d2 * USUAL / LARGER),
)


def gamma(layer: int) -> Quantity:
    """Γ of one layer."""
    return Quantity(f"gamma_{layer}", f"Γ at layer {layer}", "cosine", _layer("gamma", layer))
