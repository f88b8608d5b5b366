"""Export of a study: a tidy CSV file with one row per run and epoch, and bare records."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from creditscope.files import write_text
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.report.csv_text import csv_text
from creditscope.runs.spec import RunSpec
from creditscope.study.plan import Plan
from creditscope.study.store import Store


def tidy(runs: Plan, store: Store) -> str:
    """CSV text: the settings of a run, then the measurements after an epoch; only finished runs have rows."""
    rows = [row for key in runs if store.record_path(key) is not None for row in _rows(runs[key], store.record(key))]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["key", "epoch"]
    return csv_text(columns, rows)


def _rows(spec: RunSpec, record: RunRecord) -> Iterator[dict[str, Any]]:
    settings = spec.settings()
    planned = settings.pop("epochs")
    run = {"key": record.key, **settings, "epochs_planned": planned, "diverged": record.diverged is not None}
    for epoch in record.history:
        yield {**run, **_measured(epoch)}


def _measured(row: HistoryRow) -> dict[str, Any]:
    """One column per number; the columns of layers are numbered."""
    columns: dict[str, Any] = {name: getattr(row, name) for name in ("epoch", "loss", "accuracy", "d1", "d2")}
    for name in ("hidden_norms", "gradient_norms", "gamma", "gamma_clamped"):
        columns.update({f"{name}_{layer}": value for layer, value in enumerate(getattr(row, name))})
    return {**columns, **{f"auxiliary.{name}": value for name, value in row.auxiliary.items()}}


def write_records(runs: Plan, store: Store, folder: Path) -> int:
    """Write every finished run's record to FOLDER/KEY.json, on one line, and return the number of records.

    A file that holds the very record already, in whatever schema version, stays as it is.
    """
    paths = {key: path for key in runs if (path := store.record_path(key)) is not None}
    for key, path in paths.items():
        target = folder / f"{key}.json"
        if not (target.is_file() and target.read_bytes() == path.read_bytes()):
            write_text(target, store.record(key).to_json(indent=None))
    return len(paths)
