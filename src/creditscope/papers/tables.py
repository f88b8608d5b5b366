"""Comparison tables: our numbers beside the published ones, each with the keys of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.papers.captions import describe_training
from creditscope.papers.comparison import Agreement, Basis, Difference, Kind, compare, compare_flags
from creditscope.papers.paper import RunGroup
from creditscope.papers.published import PublishedFigure
from creditscope.papers.quantities import Flags, Quantity
from creditscope.records.record import Document, Record
from creditscope.runs.spec import RunSpec
from creditscope.study.tables import SeedRow
from creditscope.verdict import Finding, Status


class ComparisonRow(Record):
    """One quantity of a table: ours, one value per seed, the published figure, and whether they agree.

    keys       the runs behind it; `controls` are the frozen runs that they were compared with
    epochs     how long these were trained, if all alike
    limit      of the difference: beyond it the numbers differ; `basis` says what it rests on
    early      belongs to the start of training, where the length of the run does not matter yet
    """

    row: str
    quantity: str
    heading: str
    kind: Kind
    values: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    controls: tuple[str, ...] = ()
    epochs: int | None = None
    seeds: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    early: bool = False
    published: PublishedFigure | None = None
    agreement: Agreement
    difference: float | None = None
    errors: float | None = None
    limit: float | None = None
    basis: Basis | None = None
    standard_error: float | None = None
    freedom: float | None = None
    note: str = ""


class ComparisonTable(Document):
    """The table of one experiment under one budget; `ours` and `theirs` say how long and on which seeds.

    stem   the name of its files
    """

    noun: ClassVar[str] = "comparison table"
    remedy: ClassVar[str] = "remove it and reproduce the experiment"
    readable: ClassVar[tuple[int, ...]] = (2,)
    paper: str
    experiment: str
    stem: str
    number: int
    title: str
    budget: str
    ours: str
    theirs: str
    rows: tuple[ComparisonRow, ...]
    rule: str = ""


@dataclass(frozen=True, slots=True)
class RunKeys:
    """The runs behind an aggregate: keys, those of their frozen controls, seeds, and epochs if all alike."""

    keys: Sequence[str] = ()
    controls: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    epochs: int | None = None


def comparison_tables(archive: RunArchive) -> Iterator[ComparisonTable]:
    """The table of every experiment, and a second one where other runs exist under the budget as published."""
    published = archive.as_published
    for name in archive.paper.names:
        yield comparison_table(archive, name)
        longer = set(published.plan(name)) - set(archive.plan(name))
        if any(published.record(key) is not None for key in longer):
            yield comparison_table(published, name)


def comparison_table(archive: RunArchive, name: str) -> ComparisonTable:
    """The table of an experiment from the records in the archive."""
    experiment = archive.paper.experiment(name)
    declared = experiment.rows(archive) if callable(experiment.rows) else experiment.rows
    rows: list[ComparisonRow] = []
    for entry in declared:
        rows += [entry] if isinstance(entry, ComparisonRow) else group_rows(archive, name, entry)
    return ComparisonTable(
        paper=archive.paper.name,
        experiment=name,
        stem=archive.stem(name),
        number=archive.paper.number(name),
        title=experiment.question,
        budget=archive.budget,
        ours=describe_training(archive, name),
        theirs=archive.paper.published.training(name).text,
        rows=tuple(rows),
        rule=experiment.rule,
    )


def group_rows(archive: RunArchive, experiment: str, group: RunGroup) -> list[ComparisonRow]:
    """One row for every quantity of a group, and one for its flags."""
    runs = archive.select(group.study or experiment, group.where)
    rows = [_quantity_row(archive, experiment, group, quantity, runs) for quantity in group.quantities]
    return [*rows, _flag_row(archive, experiment, group, group.flags)] if group.flags is not None else rows


def _quantity_row(
    archive: RunArchive, experiment: str, group: RunGroup, quantity: Quantity, runs: SelectedRuns
) -> ComparisonRow:
    source, name = group.source(experiment)
    values = tuple(quantity.read(record) for record in runs.records.values())
    figure = archive.figure(source, name, quantity.name)
    epochs = min((len(record.history) for record in runs.records.values()), default=None)
    published_epochs = archive.paper.published.training(source).epochs
    comparison = compare(values, figure, quantity.kind, epochs, published_epochs)
    keys = RunKeys(tuple(runs.records), seeds=runs.seeds, epochs=common_length(runs.specs.values()))
    notes = _diverged(runs), "" if runs.specs else "not in this budget"
    row = _row(group.row, quantity, comparison, figure, keys, *notes)
    return row.model_copy(update={"values": values, "missing": runs.missing})


def common_length(specs: Iterable[RunSpec]) -> int | None:
    """For how many epochs runs were trained, if all alike."""
    lengths = {spec.epochs for spec in specs}
    return lengths.pop() if len(lengths) == 1 else None


def _diverged(runs: SelectedRuns) -> str:
    """The runs that diverged: their numbers are those of a network that was not trained to the end."""
    return ", ".join(
        f"seed {runs.specs[key].seed} diverged in epoch {record.diverged.epoch + 1}"
        for key, record in runs.records.items()
        if record.diverged is not None
    )


def _row(
    row: str,
    quantity: Quantity,
    comparison: Difference,
    figure: PublishedFigure | None,
    runs: RunKeys,
    *notes: str,
) -> ComparisonRow:
    """A row without its numbers."""
    parts = (comparison.note, figure.note if figure is not None else "", *notes)
    return ComparisonRow(
        row=row,
        quantity=quantity.name,
        heading=quantity.heading,
        kind=quantity.kind,
        early=quantity.early,
        keys=tuple(runs.keys),
        controls=runs.controls,
        seeds=runs.seeds,
        epochs=runs.epochs,
        published=figure,
        agreement=comparison.agreement,
        difference=comparison.difference,
        errors=comparison.errors,
        limit=comparison.limit,
        basis=comparison.basis,
        standard_error=comparison.standard_error,
        freedom=comparison.freedom,
        note="; ".join(part for part in parts if part),
    )


def _flag_row(archive: RunArchive, experiment: str, group: RunGroup, flags: Flags) -> ComparisonRow:
    """The published flags of each seed, from its findings."""
    audited = archive.audit_row(group.study or experiment, group.where)
    seeds, missing, epochs = (audited.seeds, audited.missing, audited.spec.epochs) if audited else ((), (), None)
    raised = [{letter: _raised(seed.findings.get(code)) for code, letter in flags.letters.items()} for seed in seeds]
    up = [tuple(letter for letter, is_up in one.items() if is_up) for one in raised]
    unknown = [tuple(letter for letter, is_up in one.items() if is_up is None) for one in raised]
    figure = archive.figure(*group.source(experiment), flags.name)
    quantity = Quantity(flags.name, flags.heading, "flags")
    row = _row(group.row, quantity, compare_flags(up, figure, unknown), figure, keys_of(seeds, epochs))
    return row.model_copy(update={"texts": tuple(" ".join(one) or "none" for one in up), "missing": missing})


def keys_of(seeds: Iterable[SeedRow], epochs: int | None = None) -> RunKeys:
    """The runs of audited seeds, with the frozen runs that they were compared with."""
    audited = tuple(seeds)
    controls = tuple(seed.control_key for seed in audited if seed.control_key)
    return RunKeys(tuple(seed.key for seed in audited), controls, tuple(seed.seed for seed in audited), epochs)


def _raised(finding: Finding | None) -> bool | None:
    """Whether a flag is raised, by the number alone and no interval; None without a number."""
    if finding is None or finding.value is None or finding.status not in (Status.PASS, Status.FIRES, Status.UNDECIDED):
        return None
    return finding.limit.past(finding.value)


def aggregate_row(
    figure: PublishedFigure | None,
    row: str,
    quantity: Quantity,
    values: Sequence[float],
    runs: RunKeys,
    *,
    texts: tuple[str, ...] = (),
    note: str = "",
) -> ComparisonRow:
    """A row aggregated over several runs; `texts` without a published figure have nothing to be compared with."""
    comparison = compare(values, figure, quantity.kind)
    if texts and not values and figure is None:
        comparison = Difference(Agreement.NOT_PUBLISHED)
    made = _row(row, quantity, comparison, figure, runs, note)
    return made.model_copy(update={"values": tuple(values), "texts": texts})
