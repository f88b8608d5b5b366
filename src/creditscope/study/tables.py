"""Audit tables over seeds: runs paired with their frozen controls, judged from records for each seed and over all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from pydantic import Field

from creditscope.diagnostics import in_current_words
from creditscope.diagnostics.depth import POINTS, from_accuracies
from creditscope.diagnostics.seeds import over_seeds
from creditscope.errors import DamagedFile, InvalidInput
from creditscope.protocols import DEFAULT, judge, protocol_named
from creditscope.records.labels import labels
from creditscope.records.record import Record
from creditscope.records.run import after_divergence
from creditscope.records.summary import Judgeable
from creditscope.registry import natural_key
from creditscope.runs.spec import RunSpec, read_spec
from creditscope.statistics.power import seeds_to_settle
from creditscope.statistics.seeds import Spread, spread
from creditscope.study.plan import Plan
from creditscope.study.store import Store
from creditscope.verdict import Finding, Status, Verdict

CONTROL = Verdict("control", "control", (), (), (), "")  # others are compared with it, so it is not judged


class SeedRow(Record):
    """One seed of a row: its run, its frozen control, findings and verdict; a control has neither of the last two."""

    seed: int
    key: str
    accuracy: float
    control_key: str = ""
    control_accuracy: float | None = None
    findings: dict[str, Finding]
    verdict: Verdict
    audited: bool = True


class AuditRow(Record):
    """One method in one setting over its seeds; verdicts are for trained runs, a control has accuracies only.

    settle       seeds per arm that would settle an undecided D3 with 80 %, if margin and spread stay the same
    best_frozen  points above the best frozen control of any method in the same setting: a number without a limit
    """

    label: str
    spec: RunSpec
    seeds: tuple[SeedRow, ...]
    missing: tuple[int, ...] = ()
    accuracy: Spread | None = None
    control: Spread | None = None
    findings: dict[str, Finding] = Field(default_factory=dict)
    verdict: Verdict | None = None
    settle: int | None = None
    best_frozen: float | None = None


def audit_table(
    runs: Plan, store: Store, *, protocol: str = DEFAULT, limits: Mapping[str, float] | None = None
) -> list[AuditRow]:
    """A row for each setting of a study, over its seeds; `limits` replaces limits of diagnostics by code."""
    if variants := protocol_named(protocol).needs_network:
        raise InvalidInput(
            f"The protocol {protocol!r} measures {', '.join(variants)} in a form that records do not hold.\n"
            "The verdicts would use other numbers. Use strict, three or four, or audit the weights."
        )
    records = {}
    for key, spec in runs.items():
        record = store.summary(key, control=spec.control != "none")
        if record is not None:
            check_spec(key, spec, record)
            records[key] = record
    return table_of(runs, records, protocol, dict(limits or {}))


def check_spec(key: str, spec: RunSpec, record: Judgeable) -> None:
    """Refuse a record that has the key of a run but the settings of another one."""
    own = read_spec(record, f"The record of {key}")
    if own == spec or (own.modules == spec.modules and own.key == key):  # an option may be given at its default
        return
    raise DamagedFile(
        f"The record of the run {key} is that of another run: {own.title}, not {spec.title}.\n"
        "Its numbers would be shown as those of another method. Restore the record, or run the run again."
    )


def table_of(
    runs: Plan, records: Mapping[str, Judgeable], protocol: str, limits: dict[str, float] | None = None
) -> list[AuditRow]:
    """The same table from records in memory, by the keys of the runs."""
    by_spec = {_content(spec): key for key, spec in runs.items()}
    groups: dict[str, dict[str, RunSpec]] = {}
    for key, spec in runs.items():
        groups.setdefault(_content(spec.model_copy(update={"seed": 0})), {})[key] = spec
    first = [next(iter(group.values())) for group in groups.values()]
    names = labels([spec.settings() for spec in first], without=("seed",))
    by_resolved = {_json(record.resolved): key for key, record in records.items() if record.resolved}
    judging = _Judging(records, by_spec, by_resolved, protocol, limits or {})
    rows = [judging.row(name, group) for name, group in zip(names, groups.values(), strict=True)]
    frozen = _best_frozen(rows)
    return [row.model_copy(update={"best_frozen": _above_best(row, frozen)}) for row in rows]


@dataclass(frozen=True, slots=True)
class _Judging:
    """What every row is judged with: the records, keys by spec and by resolved options, the protocol, the limits."""

    records: Mapping[str, Judgeable]
    by_spec: dict[str, str]
    by_resolved: dict[str, str]
    protocol: str
    limits: dict[str, float]

    def row(self, label: str, group: Mapping[str, RunSpec]) -> AuditRow:
        """The seeds of one setting in one row."""
        spec = next(iter(group.values()))
        seeds = tuple(self.seed(key, own) for key, own in group.items() if key in self.records)
        missing = tuple(own.seed for key, own in group.items() if key not in self.records)
        if not seeds:
            return AuditRow(label=label, spec=spec, seeds=(), missing=missing)
        images = self.records[seeds[0].key].test_images
        paired = [seed for seed in seeds if seed.control_accuracy is not None]
        controls = [seed.control_accuracy for seed in paired if seed.control_accuracy is not None]
        row = AuditRow(
            label=label,
            spec=spec,
            seeds=seeds,
            missing=missing,
            accuracy=spread([seed.accuracy for seed in seeds], images),
            control=spread(controls, images) if controls else None,
        )
        return row if spec.control != "none" else self.judged(row, paired, images)

    def seed(self, key: str, spec: RunSpec) -> SeedRow:
        """One run with its control; D3 is computed from the two accuracies, every other finding is the stored one.

        Without a finished control in the plan D3 is the stored finding too, with the control that it was judged beside.
        """
        record = self.records[key]
        if spec.control != "none":
            return SeedRow(seed=spec.seed, key=key, accuracy=record.accuracy, findings={}, verdict=CONTROL)
        frozen = self.frozen_key(record, spec)
        usable = frozen in self.records and self.records[frozen].diverged is None
        control = self.records[frozen].accuracy if usable else None
        stored = record.report.findings if record.report is not None else {}
        saved = record.report.control_accuracy if record.report is not None else None
        findings = {code: self.rejudged(in_current_words(finding)) for code, finding in stored.items()}
        if frozen in self.records or not saved:
            own = None if control is None else (control,)
            findings["D3"] = self.depth((record.accuracy,), own, record.test_images, blocks=_blocks(record))
        elif saved:
            control = fmean(saved)
            if record.report is not None and record.report.protocol != self.protocol:
                findings["D3"] = self.depth((record.accuracy,), saved, record.test_images)
        return SeedRow(
            seed=spec.seed,
            key=key,
            accuracy=record.accuracy,
            control_key=frozen if usable else "",
            control_accuracy=control,
            findings=_in_order(findings),
            verdict=after_divergence(judge(protocol_named(self.protocol), findings), record.diverged),
            audited=record.report is not None,
        )

    def frozen_key(self, record: Judgeable, spec: RunSpec) -> str:
        """The key of a run's frozen control; an option that only one of the two gives at its default is no difference.

        Keys need torch, so the control is found by its declaration, else by the resolved options in the records.
        """
        control = spec.control_spec("frozen")
        resolved = {**record.resolved, "control": control.control, "penalty": control.penalty}
        return self.by_spec.get(_content(control)) or self.by_resolved.get(_json(resolved), "")

    def judged(self, row: AuditRow, paired: Sequence[SeedRow], images: int) -> AuditRow:
        """The row judged over its seeds: D3 by its interval over them, all others by their findings on each seed."""
        codes = dict.fromkeys(code for seed in row.seeds for code in seed.findings)
        together = {code: over_seeds([seed.findings.get(code) for seed in row.seeds]) for code in codes}
        trained = tuple(seed.accuracy for seed in row.seeds)  # all of them: those with a control are no fair sample
        control = tuple(seed.control_accuracy for seed in paired if seed.control_accuracy is not None)
        blocks = min(_blocks(self.records[seed.key]) for seed in row.seeds)
        depth = self.depth(trained, control or None, images, blocks=blocks)
        settle = None
        if depth.status is Status.UNDECIDED:
            settle = seeds_to_settle(trained, control, depth.limit.at, images)
        findings = _in_order({**together, "D3": depth})
        verdict = judge(protocol_named(self.protocol), findings)
        for seed in row.seeds:
            stop = self.records[seed.key].diverged
            verdict = after_divergence(verdict, stop, run=f"The run of seed {seed.seed}")
        return row.model_copy(update={"findings": findings, "verdict": verdict, "settle": settle})

    def depth(
        self, trained: tuple[float, ...], control: tuple[float, ...] | None, images: int, *, blocks: int = 1
    ) -> Finding:
        """D3 from accuracies alone."""
        variant = protocol_named(self.protocol).variants.get("D3", "")
        return from_accuracies(trained, control, images, self.limits.get("D3"), variant=variant, blocks=blocks)

    def rejudged(self, finding: Finding) -> Finding:
        """A stored finding as this protocol judges it, by another limit if one was given."""
        if finding.measurement is None or finding.status is Status.SKIPPED:
            return finding
        at = self.limits.get(finding.code, finding.limit.at) if self.limits else finding.limit.at
        limit = finding.limit.moved(at) if at != finding.limit.at else finding.limit
        status = limit.judge(finding.measurement)
        unjudged = finding.code in protocol_named(self.protocol).unjudged and status is not Status.UNDEFINED
        status = Status.MEASURED if unjudged else status
        same = limit is finding.limit and status is finding.status
        return finding if same else replace(finding, limit=limit, status=status)


def _blocks(record: Judgeable) -> int:
    """How many blocks the network has; a run that was not audited is taken to have some."""
    return 1 if record.report is None else record.report.subject.depth


def _in_order(findings: Mapping[str, Finding]) -> dict[str, Finding]:
    """The findings in the natural order of their codes."""
    return {code: findings[code] for code in sorted(findings, key=natural_key)}


def _best_frozen(rows: Iterable[AuditRow]) -> dict[str, float]:
    """The mean accuracy of the best frozen control of any method, by setting."""
    best: dict[str, float] = {}
    for row in rows:
        if row.spec.control == "frozen" and row.accuracy is not None:
            setting = _setting(row)
            best[setting] = max(row.accuracy.mean, best.get(setting, row.accuracy.mean))
    return best


def _above_best(row: AuditRow, frozen: Mapping[str, float]) -> float | None:
    """Points between a row's mean and that of the best frozen control of any method in the same setting."""
    if row.accuracy is None or row.spec.control != "none":
        return None
    best = frozen.get(_setting(row))
    return None if best is None else POINTS * (fmean(row.accuracy.values) - best)


def _setting(row: AuditRow) -> str:
    """Everything but the method: network, data and recipe."""
    same = {"method": "", "method_options": {}, "penalty": 0.0, "control": "none", "seed": 0}
    return _content(row.spec.model_copy(update=same))


def _content(spec: RunSpec) -> str:
    return spec.model_dump_json()


def _json(resolved: Mapping[str, Any]) -> str:
    return json.dumps(resolved, sort_keys=True)
