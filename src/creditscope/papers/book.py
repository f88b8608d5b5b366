"""Where do the numbers come from?  The declared studies, and the records of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from creditscope.errors import BadFile
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study, Value
from creditscope.study.expansion import matches
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store
from creditscope.study.tables import AuditRow, audit_table

LAPTOP, PAPER = "laptop", "paper"  # fits two cores; exactly as published
Where = Mapping[str, Value | Sequence[Value]]


def study_file(name: str) -> Path:
    """A declared study: of the clone, or of the installed package."""
    package = Path(str(files("creditscope")))
    for folder in (package / "studies", package.parents[1] / "studies"):
        if (folder / f"{name}.toml").exists():
            return folder / f"{name}.toml"
    raise BadFile(f"The study {name}.toml is not there.\nThe experiment cannot be run. Install creditscope again.")


@dataclass(frozen=True, slots=True)
class Found:
    """Runs of one row: those with a record, by key, and the seeds of those without."""

    records: dict[str, RunRecord]
    specs: dict[str, RunSpec]
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Book:
    """All that tables and claims read: plans by study, records by key; each read once."""

    store: Store
    budget: str = LAPTOP
    _plans: dict[str, Plan] = field(default_factory=dict)
    _records: dict[str, RunRecord | None] = field(default_factory=dict)
    _tables: dict[str, list[AuditRow]] = field(default_factory=dict)

    def plan(self, study: str) -> Plan:
        """The runs of a study under the budget."""
        if study not in self._plans:
            self._plans[study] = plan(Study.read(study_file(study)), self.budget, store=self.store.folder)
        return self._plans[study]

    def record(self, key: str) -> RunRecord | None:
        """The record of a run, if it was done."""
        if key not in self._records:
            self._records[key] = self.store.record(key) if self.store.record_path(key) is not None else None
        return self._records[key]

    def find(self, study: str, where: Where) -> Found:
        """The runs of a study with these settings; controls only if `where` asks for them."""
        wanted = {"control": "none", **where}
        axes = {key: value if isinstance(value, list | tuple) else (value,) for key, value in wanted.items()}
        specs = {key: spec for key, spec in self.plan(study).items() if matches(spec, axes)}
        records = {key: record for key in specs if (record := self.record(key)) is not None}
        missing = tuple(dict.fromkeys(spec.seed for key, spec in specs.items() if key not in records))
        return Found(records, specs, missing)

    def table(self, study: str) -> list[AuditRow]:
        """The audit table of a study."""
        if study not in self._tables:
            self._tables[study] = self.table_under(study, {})
        return self._tables[study]

    def table_under(self, study: str, limits: Mapping[str, float], protocol: str = "three") -> list[AuditRow]:
        """The same with other limits, or in the verdicts of another protocol."""
        return audit_table(self.plan(study), _Read(self), protocol=protocol, limits=limits)

    def again(self) -> Book:
        """The same store, its records still to be read."""
        return Book(self.store, self.budget, self._plans)

    def audited(self, study: str, where: Where) -> AuditRow | None:
        """The row of the audit table with these settings, if any of its seeds was run."""
        keys = set(self.find(study, where).records)
        return next((row for row in self.table(study) if keys & {seed.key for seed in row.seeds}), None)


class _Read(Store):
    """The book's store, whose records are parsed once however many tables are made of them."""

    def __init__(self, book: Book) -> None:
        super().__init__(book.store.folder, book.store.beneath)
        self._book = book

    def record_path(self, key: str) -> Path | None:
        """Where the record is."""
        return self._book.store.record_path(key)

    def record(self, key: str) -> RunRecord:
        """What the book has read."""
        return self._book.record(key) or super().record(key)
