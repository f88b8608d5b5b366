"""What do others read?  A tidy CSV file, one row per run and epoch, and bare records for a folder of results."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from creditscope.files import write_text
from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import PARTS
from creditscope.study.plan import Plan
from creditscope.study.store import Store


def tidy(runs: Plan, store: Store) -> str:
    """CSV text: settings of the run, then what was measured after the epoch; only finished runs have rows."""
    rows = [row for key in runs if store.record_path(key) is not None for row in _rows(runs[key], store.record(key))]
    columns = list(dict.fromkeys(column for row in rows for column in row)) or ["key", "epoch"]
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _rows(spec: RunSpec, record: RunRecord) -> Iterator[dict[str, Any]]:
    run = {"key": record.key, **_settings(spec), "diverged": record.diverged is not None}
    for epoch in record.history:
        yield {**run, **_measured(epoch)}


def _settings(spec: RunSpec) -> dict[str, Any]:
    """The fields of a run; options in columns of their own."""
    fields: dict[str, Any] = spec.model_dump(exclude={"plugins", *(f"{part}_options" for part in PARTS)})
    fields["epochs_planned"] = fields.pop("epochs")
    for part in PARTS:
        options: Mapping[str, Any] = getattr(spec, f"{part}_options")
        fields.update({f"{part}.{name}": value for name, value in options.items()})
    return fields


def _measured(row: HistoryRow) -> dict[str, Any]:
    """One column per number; layers are numbered."""
    found: dict[str, Any] = {name: getattr(row, name) for name in ("epoch", "loss", "accuracy", "d1", "d2")}
    for name in ("hidden_norms", "gradient_norms", "gamma", "gamma_clamped"):
        found.update({f"{name}_{layer}": value for layer, value in enumerate(getattr(row, name))})
    return {**found, **{f"auxiliary.{name}": value for name, value in row.auxiliary.items()}}


def write_records(runs: Plan, store: Store, folder: Path) -> int:
    """Write every finished run's record to FOLDER/KEY.json, on one line; returns how many."""
    done = [key for key in runs if store.record_path(key) is not None]
    for key in done:
        write_text(folder / f"{key}.json", store.record(key).model_dump_json() + "\n")
    return len(done)
