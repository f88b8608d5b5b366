"""Quantities of a run that stand in a table, each read from the run's record alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from creditscope.diagnostics import diagnostics
from creditscope.papers.comparison import Kind
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.statistics.layers import mean
from creditscope.verdict import Measurement, Status

Reader = Callable[[RunRecord], float]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A named number of a run: heading, the kind that decides how it is compared, and how a record is read.

    early   belongs to the start of training, where the length of the run does not matter yet
    A quantity that is aggregated over several runs has no reader.
    """

    name: str
    heading: str
    kind: Kind
    read: Reader = lambda record: math.nan
    early: bool = False


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of a published verdict, by the code of the diagnostic that raises each."""

    heading: str
    letters: Mapping[str, str]
    name: str = "flags"


def measured(record: RunRecord, name: str) -> Measurement | None:
    """A measure of the run's report; None if it was not taken."""
    return record.report.measures.get(name) if record.report is not None else None


def measure(name: str, layer: int | None = None) -> Reader:
    """Reads a measure, or its number at one layer; NaN without one."""

    def read(record: RunRecord) -> float:
        measurement = measured(record, name)
        if measurement is None or layer is None:
            return math.nan if measurement is None else measurement.value
        return measurement.per_layer[layer] if layer < len(measurement.per_layer) else math.nan

    return read


def finding(code: str) -> Reader:
    """Reads the value of a diagnostic; NaN where it was not measured."""

    def read(record: RunRecord) -> float:
        entry = record.report.findings.get(code) if record.report is not None else None
        return entry.value if entry is not None and entry.value is not None else math.nan

    return read


def first_epoch(code: str, read: Callable[[HistoryRow], float]) -> Reader:
    """Reads the first epoch, counted from 1, after which a diagnostic fires; infinity if it does not within the run.

    NaN if it did not fire and the run stopped early or a row is undefined: then the answer is not known.
    """

    def first(record: RunRecord) -> float:
        answers = {row.epoch + 1.0: diagnostics[code].limit.judge(Measurement(read(row))) for row in record.history}
        fired = [epoch for epoch, status in answers.items() if status is Status.FIRES]
        silent = bool(answers) and record.diverged is None and set(answers.values()) == {Status.PASS}
        return fired[0] if fired else math.inf if silent else math.nan

    return first


def at_epoch(
    name: str, heading: str, kind: Kind, epoch: int, read: Callable[[HistoryRow], float], *, early: bool = False
) -> Quantity:
    """A number of the history after so many epochs."""

    def number(record: RunRecord) -> float:
        return next((read(row) for row in record.history if row.epoch + 1 == epoch), math.nan)

    return Quantity(f"{name}_{epoch}", f"{heading} after epoch {epoch}", kind, number, early)


def row_gamma(layer: int) -> Callable[[HistoryRow], float]:
    """Γ of one layer in a row of the history; NaN where it was not measured."""
    return lambda row: row.gamma[layer] if layer < len(row.gamma) else math.nan


def row_deep_gamma(row: HistoryRow) -> float:
    """Mean Γ over layers 1..L in a row of the history."""
    return mean(row.gamma[1:])


def _deep_with_exact(record: RunRecord) -> float:
    """Mean Γ over layers 1..L, exact layers included."""
    gamma = measured(record, "gamma")
    return mean(gamma.per_layer[1:]) if gamma is not None else math.nan


def _null_std(record: RunRecord) -> float:
    """The deep mean's spread over fresh draws, from D6's z = (Γ - mean)/std; NaN where z is too small to divide by."""
    z = finding("D6")(record)
    if not abs(z) > diagnostics["D6"].limit.at:
        return math.nan
    return (measure("gamma")(record) - measure("gamma_null")(record)) / z


def _loss_drop(record: RunRecord) -> float:
    """Training loss of the first epoch minus that of the last."""
    return record.history[0].loss - record.history[-1].loss if len(record.history) > 1 else math.nan


ACCURACY = Quantity("accuracy", "accuracy", "share", lambda record: record.accuracy)
GROWTH = Quantity("growth", "largest growth (D1)", "scale", finding("D1"))
DEEPEST_STATE = Quantity("h_L", "‖h_L‖", "scale", measure("hidden_norm"))
DEEPEST_GRADIENT = Quantity("g_L", "‖g_L‖ at N = 128 (D2)", "scale", finding("D2"))
DRIFT = Quantity("drift", "drift (D4)", "cosine", finding("D4"))
DEEP_GAMMA = Quantity("deep_gamma", "deep Γ", "cosine", _deep_with_exact)
DEEP_GAMMA_INEXACT = Quantity("deep_gamma_inexact", "deep Γ without exact layers", "cosine", measure("gamma"))
REPORTED_GAMMA = Quantity("reported_gamma", "Γ as usually reported", "cosine", measure("gamma_clamped_mean"))
NULL_MEAN = Quantity("null_mean", "deep Γ with fresh feedback", "cosine", measure("gamma_null"))
NULL_STD = Quantity("null_std", "its spread over 20 draws", "spread", _null_std)
LEAVE_BEST_OUT = Quantity("leave_best_out", "R, ratio left without the best layer (D5)", "size", finding("D5"))
Z = Quantity("z", "z of deep Γ (D6)", "count", finding("D6"))
RHO = Quantity("rho", "deep ρ, relative step", "cosine", measure("rho"))
RHO_ABSOLUTE = Quantity("rho_absolute", "deep ρ, absolute step", "cosine", measure("rho_absolute"))
RHO_ABSOLUTE_BP = Quantity("rho_absolute_bp", "ρ of the gradient, absolute step", "cosine", measure("rho_absolute_bp"))
NUDGE = Quantity("nudge", "deep nudging, relative step", "size", measure("nudge"))
NUDGE_ABSOLUTE = Quantity("nudge_absolute", "deep nudging, absolute step", "size", measure("nudge_absolute"))
LOSS_DROP = Quantity("loss_drop", "fall of the training loss", "size", _loss_drop)
BLOCK_DRIFT = Quantity("block_drift", "drift of the block weights", "scale", measure("weight_drift"))
EMBED_DRIFT = Quantity("embed_drift", "drift of the embedding weights", "scale", measure("weight_drift", 0))
FIRST_D1 = Quantity("first_D1", "first epoch of D1", "epoch", first_epoch("D1", lambda row: row.d1))
FIRST_D2 = Quantity("first_D2", "first epoch of D2", "epoch", first_epoch("D2", lambda row: row.d2))


def gamma(layer: int) -> Quantity:
    """Γ of one layer."""
    return Quantity(f"gamma_{layer}", f"Γ at layer {layer}", "cosine", measure("gamma", layer))
