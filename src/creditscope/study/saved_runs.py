"""Saved runs read from a folder, each judged beside its frozen control where that was saved too.

A study audits each run alone, since its control may still be training, and joins the two in its tables. The same
happens here, so that `creditscope report` and the pages of a study say the same of a run. A report that was saved with
its control, by `creditscope audit FOLDER`, stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from creditscope.diagnostics import in_current_words
from creditscope.errors import BadFile
from creditscope.protocols import PROTOCOLS
from creditscope.records.folder import RECORD, read_record
from creditscope.records.run import RunRecord
from creditscope.records.summary import Judgeable
from creditscope.report.study_views import beside_control
from creditscope.report.views import AuditView, gather
from creditscope.runs.spec import read_spec
from creditscope.study.plan import Plan
from creditscope.study.tables import SeedRow, table_of


def saved_views(source: Path) -> list[AuditView]:
    """The audits and runs below a path, each run with its frozen control taken into account."""
    return beside_controls(gather(source), _records_near(source))


def beside_controls(views: Sequence[AuditView], others: Iterable[Judgeable] = ()) -> list[AuditView]:
    """The views, each run judged beside its frozen control; that is looked for among them, then among `others`.

    `others` are only read if a view was saved without its control.
    """
    views = [_in_current_words(view) for view in views]
    waiting = {view.report.protocol for view in views if view.report is not None and _lacks_control(view)}
    if not waiting:
        return views
    records: dict[str, Judgeable] = {record.key: record for record in others if record.spec.get("control") == "frozen"}
    records |= {view.run.key: view.run for view in views if view.run is not None}
    for protocol in waiting:
        if protocol in PROTOCOLS and not PROTOCOLS[protocol].needs_network:
            seeds = _judged(records, protocol)
            views = [_joined(view, seeds, protocol) for view in views]
    return views


def _in_current_words(view: AuditView) -> AuditView:
    """The view of a run with the remedies and explanations of this version, which older records do not hold."""
    if view.report is None or view.run is None:  # a report in a file of its own is shown as it was written
        return view
    findings = {code: in_current_words(finding) for code, finding in view.report.findings.items()}
    return replace(view, report=view.report.model_copy(update={"findings": findings}))


def _lacks_control(view: AuditView) -> bool:
    return view.run is not None and not view.is_control and view.report is not None and not view.report.control_accuracy


def _joined(view: AuditView, seeds: dict[str, SeedRow], protocol: str) -> AuditView:
    seed = seeds.get(view.key)
    if seed is None or seed.control_accuracy is None or not _lacks_control(view):
        return view
    return beside_control(view, seed, protocol) if view.report and view.report.protocol == protocol else view


def _judged(records: Mapping[str, Judgeable], protocol: str) -> dict[str, SeedRow]:
    """Every run by key, judged beside its control; a record without a valid spec has none."""
    runs: Plan = {}
    for key, record in records.items():
        with suppress(BadFile):
            runs[key] = read_spec(record, key)
    return {seed.key: seed for row in table_of(runs, records, protocol) for seed in row.seeds}


def _records_near(source: Path) -> Iterator[RunRecord]:
    """The records beside that of one run, in folders or in files; a file that is not a record is skipped."""
    folder = source.resolve() if source.is_dir() else source.resolve().parent
    if (folder / RECORD).is_file():
        paths = sorted(folder.parent.glob(f"*/{RECORD}"))
    else:
        paths = sorted(folder.glob("*.json")) if source.is_file() else []
    for path in paths:
        with suppress(BadFile):
            yield read_record(path)
