"""AuditView: an audit, a run or both, with a label, read from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from creditscope.errors import BadFile
from creditscope.reading import parse_json, read_text
from creditscope.records.folder import RECORD, is_bookkeeping, read_record
from creditscope.records.labels import IN_TITLE, flatten, label, labels, varied
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.verdict import Reason, Status, Verdict


@dataclass(frozen=True, slots=True)
class AuditView:
    """One audit, one run, or a run with its audit."""

    label: str  # the method, as legends call it
    title: str
    key: str = ""
    seed: int | None = None
    report: Report | None = None
    run: RunRecord | None = None

    @property
    def is_control(self) -> bool:
        """Whether the run is a control: frozen, shallow or partly trained."""
        return self.run is not None and self.run.spec.get("control", "none") != "none"

    @property
    def verdict(self) -> str:
        """The verdict as text; "not audited" for a run without an audit."""
        if self.report is None:
            return "control" if self.is_control else "not audited"
        return str(self.report.verdict)


def from_report(report: Report) -> AuditView:
    """An audit without the record of a run."""
    seeds = report.provenance.seeds
    return AuditView(
        report.subject.name, report.subject.name, seed=seeds[0] if len(seeds) == 1 else None, report=report
    )


def from_runs(records: Sequence[RunRecord]) -> list[AuditView]:
    """Runs that are read together; labels show what differs between them but for the seed, titles the seed too."""
    names = labels([flatten(record.spec) for record in records], without=("seed",))
    return [_from_run(*each) for each in zip(records, names, _titles(records), strict=True)]


def _titles(records: Sequence[RunRecord]) -> list[str]:
    """A title for each run: the name of a lone audit, else method, data, network, epochs, seed and what differs."""
    if len(records) == 1 and records[0].report is not None:
        return [records[0].report.subject.name]
    runs = [flatten(record.spec) for record in records]
    shown = dict.fromkeys((*IN_TITLE, *(name for run in runs for name in run if "." in name), *varied(runs)))
    return [label(run, shown) for run in runs]


def _from_run(record: RunRecord, label: str, title: str) -> AuditView:
    seed, report = record.spec.get("seed"), record.report
    if report is not None:
        report = report.model_copy(update={"subject": report.subject.model_copy(update={"name": title})})
        report = _as_control(report, record.spec.get("control", "none"))
    return AuditView(label, title, record.key, seed if isinstance(seed, int) else None, report, record)


def _as_control(report: Report, control: str) -> Report:
    """The report of a control run: others are compared with it, so it has neither D3 nor a verdict."""
    if control == "none":
        return report
    note = f"this run is the {control} control"
    verdict = Verdict("control", "control", (), (), (), f"{note[0].upper()}{note[1:]}.", report.verdict.warnings)
    findings = dict(report.findings)
    if "D3" in findings:
        skipped = replace(findings["D3"], status=Status.SKIPPED, reason=Reason.NOT_APPLICABLE, note=note)
        findings["D3"] = replace(skipped, measurement=None, remedy="")
    if "D10" in findings and findings["D10"].measurement is not None:  # blocks that were not trained add nothing
        findings["D10"] = replace(findings["D10"], status=Status.MEASURED, remedy="")
    return report.model_copy(update={"findings": findings, "verdict": verdict})


def gather(path: Path) -> list[AuditView]:
    """The report or run in a file; in a folder its own run, else all runs and reports below it."""
    if path.is_file():
        return _read([path])
    if not path.is_dir():
        raise BadFile(
            f"{path} is neither a file nor a folder.\n"
            "Give the JSON of a report, the folder of a run, or a store of runs."
        )
    if (path / RECORD).is_file():
        return _read([path / RECORD])
    reports = [file for file in sorted(path.glob("*.json")) if not is_bookkeeping(file)]
    paths = [*sorted(path.glob(f"*/{RECORD}")), *reports]
    if not paths:
        raise BadFile(
            f"{path} holds neither {RECORD}, nor folders with one, nor reports (*.json).\n"
            "Nothing can be shown. Give the folder of a run, or of a study's store."
        )
    return _read(paths)


def _read(paths: Sequence[Path]) -> list[AuditView]:
    """Runs first, then reports; a file that is neither is refused by name."""
    reports, records = [], []
    for path in paths:
        if _is_run(path):
            records.append(read_record(path))
        else:
            reports.append(Report.from_json(path))
    return from_runs(records) + [from_report(report) for report in reports]


def _is_run(path: Path) -> bool:
    content = parse_json(read_text(path, "The record"), str(path))
    return isinstance(content, dict) and ("history" in content or ("findings" not in content and path.name == RECORD))
