"""Runs made by hand, with a history and a report of every kind of number, so that every chart has something to show."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.report.made import EXPLODED, HEALTHY, report

from creditscope.records.report import Report
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.verdict import Finding, Measurement, Missing, Verdict

CREDIT = {
    "gamma": Measurement(0.05, (0.42, 0.09, 0.01), note="value: mean over layers 1..L; layer 0 apart: 0.42"),
    "gamma_clamped": Measurement(0.04, (0.42, 0.07, 0.01)),
    "gamma_clamped_mean": Measurement(0.17, note="Γ as usually reported"),
    "gamma_null": Measurement(0.0, (0.01, 0.0, -0.01)),
    "gamma_null_std": Measurement(0.02, (0.02, 0.02, 0.02)),
    "rho": Measurement(0.1, (0.3, 0.1, 0.05)),
    "rho_absolute": Measurement(0.05, (0.2, 0.08, 0.02)),
    "rho_absolute_bp": Measurement(0.5, (0.9, 0.6, 0.4)),
    "nudge": Measurement(-0.01, (-0.02, -0.01, 0.001)),
    "nudge_absolute": Measurement(-0.001, (-0.002, -0.001, math.nan)),
}


def audited(method: str = "dfa", seed: int = 42, *, healthy: bool = False, notes: str = "") -> Report:
    """A report with credit, of an exploded network unless it is healthy."""
    answers: dict[str, Measurement | Missing] = dict(HEALTHY if healthy else EXPLODED)
    answers["D3"] = Measurement(15.0 if healthy else -3.0 - seed % 3, interval=(10.0, 20.0) if healthy else (-6.0, 0.0))
    made = report(answers, CREDIT)
    subject = made.subject.model_copy(update={"name": f"{method} on mnist1d, seed {seed}", "notes": notes})
    origin = made.provenance.model_copy(update={"seeds": (seed,)})
    update = {"subject": subject, "provenance": origin, "accuracy": (0.27,), "control_accuracy": (0.31,)}
    return made.model_copy(update=update)


def history(epochs: int, *, healthy: bool = False) -> tuple[HistoryRow, ...]:
    """A stream that explodes, or does not."""
    return tuple(
        HistoryRow(
            epoch=epoch,
            loss=2.0 - epoch / epochs,
            accuracy=0.2 + 0.3 * epoch / epochs,
            hidden_norms=(8.0, 9.0, 14.0),
            gradient_norms=(0.06, 0.05, 0.04),
            d1=1.5 if healthy else 2.0 * 3.0**epoch,
            d2=3e-4 if healthy else 1e-3 * 0.1**epoch,
        )
        for epoch in range(epochs)
    )


def run(
    method: str = "dfa", seed: int = 42, *, epochs: int = 10, healthy: bool = False, key: str = "", notes: str = ""
) -> RunRecord:
    """A finished run with its audit inside."""
    return RunRecord(
        key=key or f"{abs(hash((method, seed))):016x}"[:16],
        spec={
            "network": "resmlp",
            "network_options": {"depth": 2},
            "data": "mnist1d",
            "method": method,
            "method_options": {},
            "penalty": 0.0,
            "control": "none",
            "epochs": epochs,
            "batch_size": 128,
            "learning_rate": 1e-3,
            "weight_decay": 0.01,
            "seed": seed,
        },
        versions={"creditscope": "0.1.0"},
        device="cpu",
        test_images=1000,
        history=history(epochs, healthy=healthy),
        timings={"seconds": 12.0},
        report=audited(method, seed, healthy=healthy, notes=notes),
    )


@dataclass(frozen=True)
class Seeds:
    """Accuracies over seeds."""

    values: tuple[float, ...]


@dataclass(frozen=True)
class Seed:
    """One run beside its frozen twin."""

    key: str
    findings: dict[str, Finding]
    verdict: Verdict
    control_accuracy: float | None = 0.31
    audited: bool = True


@dataclass(frozen=True)
class Row:
    """One method over its seeds, as a study judges it."""

    label: str
    seeds: tuple[Seed, ...]
    findings: dict[str, Finding]
    verdict: Verdict | None
    accuracy: Seeds | None = field(default_factory=lambda: Seeds((0.27, 0.28)))
    control: Seeds | None = field(default_factory=lambda: Seeds((0.31, 0.30)))


def row(label: str, records: list[RunRecord]) -> Row:
    """A row that says what the first of its runs says."""
    reports = [record.report for record in records if record.report is not None]
    seeds = tuple(
        Seed(record.key, found.findings, found.verdict) for record, found in zip(records, reports, strict=True)
    )
    return Row(label, seeds, reports[0].findings, reports[0].verdict)
