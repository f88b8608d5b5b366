"""Our verdicts on a paper's main experiment, beside the published accuracy and flags."""

from __future__ import annotations

from collections.abc import Sequence

from creditscope.papers.archive import RunArchive
from creditscope.papers.comparison import Agreement, Kind
from creditscope.papers.paper import Paper, VerdictSection
from creditscope.papers.reasons import likeliest_reason
from creditscope.papers.rendering import Places, ours, published, theirs
from creditscope.papers.tables import ComparisonTable
from creditscope.records.labels import counted
from creditscope.report.markdown import escaped
from creditscope.report.markdown import table as markdown_table
from creditscope.study.tables import AuditRow

BESIDE: tuple[tuple[str, Kind], ...] = (("accuracy", "share"), ("flags", "flags"))


def _lengths(archive: RunArchive, section: VerdictSection) -> list[tuple[str, list[AuditRow]]]:
    """The audited rows of either budget, the published length first, each with its heading; equal budgets once."""
    published = archive.as_published
    same = set(published.plan(section.experiment)) == set(archive.plan(section.experiment))
    sources = [published] if same else [published, archive]
    lengths = []
    for source in sources:
        rows = [row for row in source.audit_rows(section.experiment) if _is_judged(row)]
        if rows:
            word = ", as long as published" if source.budget == archive.paper.budgets[-1] else ""
            lengths.append((f"Trained for {counted(rows[0].spec.epochs, 'epoch')}{word}:", rows))
    return lengths


def _is_judged(row: AuditRow) -> bool:
    return row.spec.control == "none" and row.accuracy is not None and row.verdict is not None


def verdict_section(
    archive: RunArchive, section: VerdictSection, tables: Sequence[ComparisonTable], places: Places
) -> list[str]:
    """The verdicts of one experiment, those of the published length first, and remarks."""
    parts = [f"## {section.heading}"]
    warnings: list[str] = []
    for text, rows in _lengths(archive, section):
        parts += [text, _verdicts(archive, rows, places, in_full=False)]
        judged = [(row.label, row.verdict) for row in rows if row.verdict is not None]
        warnings += _below_the_best(rows)
        warnings += [f"{escaped(name)}: {escaped(warning)}" for name, verdict in judged for warning in verdict.warnings]
    if len(parts) == 1:
        parts.append("No run yet.")
    remarks = (*dict.fromkeys(warnings), *_other_flags(archive.paper, section, tables), *section.remarks(archive))
    return [*parts, "\n".join(f"- {remark}" for remark in remarks)]


def verdicts_in_full(archive: RunArchive, places: Places) -> list[str]:
    """The same tables with the verdict of every seed and links to its runs."""
    section = archive.paper.verdicts
    if section is None:
        return []
    return [text for text, rows in _lengths(archive, section) for text in (text, _verdicts(archive, rows, places))]


def _verdicts(archive: RunArchive, rows: Sequence[AuditRow], places: Places, *, in_full: bool = True) -> str:
    """Accuracy, frozen control and verdict of every method; in full with every seed and the runs."""
    section = archive.paper.verdicts
    if section is None:
        return ""
    heads = [
        "method",
        "accuracy",
        "frozen control",
        "D3, points",
        "over the best frozen control",
        "our verdict",
        "published accuracy",
        "published flags",
    ]
    body = [_verdict_row(archive.paper, section, row) for row in rows]
    if in_full:
        heads += ["each seed", "runs"]
        for cells, row in zip(body, rows, strict=True):
            cells += [
                "; ".join(f"{seed.seed}: {escaped(str(seed.verdict))}" for seed in row.seeds),
                places.runs(_keys(row)),
            ]
    return markdown_table(heads, body)


def _verdict_row(paper: Paper, section: VerdictSection, row: AuditRow) -> list[str]:
    depth = row.findings.get("D3")
    pairs = [seed for seed in row.seeds if seed.control_key]
    alone = "" if len(pairs) == len(row.seeds) else f" ({counted(len(pairs), 'control')} for {len(row.seeds)} seeds)"
    name = section.published_row(row.spec)
    beside = ((paper.published.figure(section.experiment, name, quantity), kind) for quantity, kind in BESIDE)
    return [
        escaped(row.label),
        "-" if row.accuracy is None else f"{100 * row.accuracy.mean:.1f} %",
        "-" if row.control is None else f"{100 * row.control.mean:.1f} %",
        "" if depth is None or depth.value is None else f"{depth.value:+.1f}{alone}",
        "" if row.best_frozen is None else f"{row.best_frozen:+.1f}",
        f"**{escaped(str(row.verdict))}**{_warned(row)}" + (" (one seed)" if len(row.seeds) == 1 else ""),
        *(escaped(published(figure, kind)) for figure, kind in beside),
    ]


def _warned(row: AuditRow) -> str:
    """How many warnings stand beside the verdict; the page of the paper has their words."""
    count = 0 if row.verdict is None else len(row.verdict.warnings)
    return f", with {counted(count, 'warning')}" if count else ""


def _below_the_best(rows: Sequence[AuditRow]) -> list[str]:
    """A sentence for every method that passes, but is less accurate than the frozen control of another method."""
    return [
        f"{escaped(row.label)} passes against its own frozen control, but at {100 * row.accuracy.mean:.1f} % it lies "
        f"{-row.best_frozen:.1f} points below the best frozen control of any method "
        f"({100 * row.accuracy.mean - row.best_frozen:.1f} %)."
        for row in rows
        if row.accuracy is not None and row.verdict is not None and row.verdict.outcome == "pass"
        if row.best_frozen is not None and row.best_frozen < 0
    ]


def _keys(row: AuditRow) -> list[str]:
    return [key for seed in row.seeds for key in (seed.key, seed.control_key) if key]


def _other_flags(paper: Paper, section: VerdictSection, tables: Sequence[ComparisonTable]) -> list[str]:
    """A sentence for every method whose flags are not the published ones."""
    return [
        f"{escaped(row.row)}: of {escaped(row.heading)} ours raises {escaped(ours(row))}, published "
        f"{escaped(theirs(row))}. {escaped(likeliest_reason(paper, table, row))}"
        for table in tables
        if table.stem == section.experiment
        for row in table.rows
        if row.kind == "flags" and row.agreement is Agreement.DIFFERS
    ]
