"""The archive that tables and claims read: plans by study, records by key, each read once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from creditscope.errors import BadFile
from creditscope.papers.paper import Paper, Where
from creditscope.papers.published import PublishedFigure
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope.study.expansion import matches
from creditscope.study.plan import Plan, plan
from creditscope.study.store import Store
from creditscope.study.tables import AuditRow, audit_table

RECORDS = "records"  # the folder of a paper's records among the results


@dataclass(frozen=True, slots=True)
class SelectedRuns:
    """The runs with certain settings: records by key, specs by key, and the seeds without a record."""

    records: dict[str, RunRecord]
    specs: dict[str, RunSpec]
    missing: tuple[int, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that have a record."""
        return tuple(self.specs[key].seed for key in self.records)


@dataclass(frozen=True, slots=True)
class RunArchive:
    """The runs of one paper under one budget, in a store."""

    paper: Paper
    store: Store
    budget: str
    _plans: dict[tuple[str, str], Plan] = field(default_factory=dict)  # by budget and study
    _records: dict[str, RunRecord | None] = field(default_factory=dict)
    _tables: dict[str, list[AuditRow]] = field(default_factory=dict)

    @property
    def as_published(self) -> RunArchive:
        """The same store under the budget as published."""
        return RunArchive(self.paper, self.store, self.paper.budgets[-1], self._plans, self._records)

    def refreshed(self) -> RunArchive:
        """The same store with no record read yet."""
        return RunArchive(self.paper, self.store, self.budget, self._plans)

    def stem(self, experiment: str) -> str:
        """The name of a table's files; another budget never overwrites the default one."""
        return experiment if self.budget == self.paper.budgets[0] else f"{experiment}-{self.budget}"

    def figure(self, experiment: str, row: str, quantity: str) -> PublishedFigure | None:
        """A published figure; None if there is none."""
        return self.paper.published.figure(experiment, row, quantity)

    def plan(self, study: str) -> Plan:
        """The runs of a study under the budget."""
        if (self.budget, study) not in self._plans:
            path = self.paper.studies / f"{study}.toml"
            if not path.exists():
                raise BadFile(
                    f"The study {path} does not exist.\nIts runs are unknown. Reinstall the paper {self.paper.name!r}."
                )
            self._plans[self.budget, study] = plan(Study.read(path), self.budget, store=self.store.folder)
        return self._plans[self.budget, study]

    def record(self, key: str) -> RunRecord | None:
        """The record of a run; None if the run was not done."""
        if key not in self._records:
            self._records[key] = self.store.record(key) if self.store.record_path(key) is not None else None
        return self._records[key]

    def trained_again(self, key: str) -> dict[str, RunRecord]:
        """Other records of a run by their folder: a study of ours trained it again, and keeps its own records."""
        beside = [layer.parent for layer in self.store.beneath if layer.name == RECORDS]
        paths = [path for folder in beside for path in sorted(folder.glob(f"*/{key}.json"))]
        return {path.parent.name: RunRecord.from_json(path) for path in paths if path.parent.name != RECORDS}

    def select(self, study: str, where: Where) -> SelectedRuns:
        """The runs of a study with these settings; controls only if `where` asks for them."""
        wanted = {"control": "none", **where}
        axes = {key: value if isinstance(value, list | tuple) else (value,) for key, value in wanted.items()}
        specs = {key: spec for key, spec in self.plan(study).items() if matches(spec, axes)}
        records = {key: record for key in specs if (record := self.record(key)) is not None}
        missing = tuple(dict.fromkeys(spec.seed for key, spec in specs.items() if key not in records))
        return SelectedRuns(records, specs, missing)

    def audit_rows(self, study: str) -> list[AuditRow]:
        """The audit table of a study."""
        if study not in self._tables:
            self._tables[study] = self.audit_rows_under(study, {})
        return self._tables[study]

    def audit_rows_under(self, study: str, limits: Mapping[str, float], protocol: str = "") -> list[AuditRow]:
        """The audit table with other limits, or with the verdicts of another protocol than the paper's."""
        return audit_table(
            self.plan(study), _CachedStore(self), protocol=protocol or self.paper.protocol, limits=limits
        )

    def audit_row(self, study: str, where: Where) -> AuditRow | None:
        """The row of the audit table with these settings; None if none of its seeds was run."""
        keys = set(self.select(study, where).records)
        return next((row for row in self.audit_rows(study) if keys & {seed.key for seed in row.seeds}), None)


def own_records_first(store: Store) -> Store:
    """The store with each layer's folder `records`, which tables link to, before the rest of the layer.

    A study of ours may have trained runs of a paper again, with records in a folder of its own.
    """
    own = [layer / RECORDS for layer in store.beneath if (layer / RECORDS).is_dir()]
    return Store(store.folder, [*own, *store.beneath])


class _CachedStore(Store):
    """The store of an archive, whose records are parsed once however many tables are made of them."""

    def __init__(self, archive: RunArchive) -> None:
        super().__init__(archive.store.folder, archive.store.beneath)
        self._archive = archive

    def record_path(self, key: str) -> Path | None:
        """Where the record is."""
        return self._archive.store.record_path(key)

    def record(self, key: str) -> RunRecord:
        """The record that the archive has read."""
        return self._archive.record(key) or super().record(key)

    def summary(self, key: str, *, control: bool = False) -> RunRecord | None:
        """The same: the archive reads whole records anyway."""
        return self._archive.record(key)
