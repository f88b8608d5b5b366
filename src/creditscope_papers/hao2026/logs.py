"""Partial audits of our own runs, as if only their logs were left."""

from __future__ import annotations

import math
from collections.abc import Iterator

from creditscope.papers.archive import RunArchive
from creditscope.papers.quantities import Quantity
from creditscope.papers.tables import ComparisonRow, RunKeys, aggregate_row, keys_of
from creditscope.partial import Coverage, PartialAudit, log_of
from creditscope.partial import partial_audit as audit_logs
from creditscope.study.tables import AuditRow
from creditscope.verdict import Status

STATES = Quantity("states", "conclusions from logs", "flags")
CONTRADICTIONS = Quantity("contradictions", "findings that the full audit contradicts", "count")
CODES = ("D0", "D1", "D2", "D3", "D4")


def partial_audit(archive: RunArchive) -> Iterator[ComparisonRow]:
    """Our own runs read as logs of ‖h_L‖ and one ‖g_l‖, at the layer that was published and at the deepest."""
    for method in ("bp", "fa", "dfa"):
        row = archive.audit_row("partial_audit", {"method": method})
        for layer in (2, 4):
            name = f"{method}, ‖g_{layer}‖ logged"
            gap = unreadable(archive, row) if row is not None else ""
            if row is None or gap:
                yield aggregate_row(None, name, CONTRADICTIONS, [], RunKeys(), note=gap)
                continue
            audit = read_as_logs(archive, row, layer)
            runs = keys_of(row.seeds)
            states = ", ".join(f"{code} {reading.state}" for code, reading in audit.readings.items())
            yield aggregate_row(None, name, STATES, [], runs, texts=(f"{states}: {audit.verdict}",))
            yield aggregate_row(None, name, CONTRADICTIONS, [float(sum(contradicted(audit, row)))], runs)


def unreadable(archive: RunArchive, row: AuditRow) -> str:
    """Why a row's runs cannot be read as logs; empty if they can."""
    for seed in row.seeds:
        record = archive.record(seed.key)
        if record is None or not record.history:
            return f"seed {seed.seed} has no epoch to be read as a log"
        if not math.isfinite(seed.accuracy):
            return f"seed {seed.seed} has no accuracy"
        if not seed.control_key:
            return f"seed {seed.seed} has no frozen control"
    return ""


def read_as_logs(archive: RunArchive, row: AuditRow, layer: int) -> PartialAudit:
    """The partial audit of a row's runs, as if nothing but their logs were left."""
    records = {seed.key: record for seed in row.seeds if (record := archive.record(seed.key)) is not None}
    logs = {key: log_of(record, layer=layer) for key, record in records.items()}  # refuses a run without an epoch
    starts = [record.history[-1].hidden_norms[0] for record in records.values()]
    return audit_logs(
        logs,
        baseline=[seed.control_accuracy for seed in row.seeds if seed.control_accuracy is not None],
        h0=starts if all(0 < start < math.inf for start in starts) else None,
        blocks=len(next(iter(records.values())).history[-1].hidden_norms) - 1,
        batch_size=128,
        test_images=next(iter(records.values())).test_images,
    )


def contradicted(audit: PartialAudit, row: AuditRow) -> Iterator[bool]:
    """For every reading that says fires or pass: whether the full audit of that seed says the opposite."""
    opposite = {Status.FIRES: Status.PASS, Status.PASS: Status.FIRES}
    for partial, seed in zip(audit.seeds, row.seeds, strict=True):
        for code in CODES:
            reading = partial.readings[code]
            if reading.state in (Coverage.EXACT, Coverage.BOUNDED) and code in seed.findings:
                yield seed.findings[code].status is opposite.get(reading.finding.status)
