"""The page of a paper: claims, findings, verdicts, experiments and differences, written from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import Answer, Claim, ClaimStatus
from creditscope.papers.comparison import TOLERANCE, Agreement, Kind
from creditscope.papers.paper import Paper, VerdictSection
from creditscope.papers.reasons import likeliest_reason
from creditscope.papers.rendering import difference, links, ours, published
from creditscope.papers.tables import ComparisonTable, comparison_tables
from creditscope.report.markdown import escaped
from creditscope.report.markdown import table as markdown_table
from creditscope.study.tables import AuditRow

BESIDE: tuple[tuple[str, Kind], ...] = (("accuracy", "share"), ("flags", "flags"))
OPENING = """# {title}, reproduced

Written by `make docs` from the records under `results/`. Every number is generated from the records; only the
explanations are hand-written, and they are shown only where a number differs. `creditscope reproduce {name} EXPERIMENT`
runs or resumes an experiment and writes its table; `creditscope reproduce {name} --list` shows how far each one is.

Source of the published figures: {citation}."""
RULES = f"""How two numbers are compared. If both sides report a spread over seeds: Welch's t at 95 %, so about one
row in twenty differs by chance. If only one side reports a spread, we assume that the other has the same one. If
neither does: within {100 * TOLERANCE["share"]:g} points for accuracies, {TOLERANCE["cosine"]:g} for cosines,
{TOLERANCE["degrees"]:g}° for angles, {TOLERANCE["scale"]:g} decades for scales. Numbers that the spreads cannot
separate, but that lie farther apart than that, are undecided: too few seeds cannot establish agreement. Norms and
growth are compared as logarithms. For a published range the nearest point counts, and a figure without a spread is
known to its last digit only. Our runs are shorter than the published ones where the table says so, and a difference may
be due to that alone."""


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of records and tables, as paths from the page."""

    records: str
    tables: str

    def runs(self, keys: Iterable[str]) -> str:
        """Links to the records of runs."""
        return links(keys, self.records)

    def table(self, stem: str) -> str:
        """A link to a table."""
        return f"[{escaped(stem)}]({self.tables}/{stem}.md)"


def document(
    archive: RunArchive, *, records: str = "../results/records", tables_folder: str = "../results/tables"
) -> str:
    """The whole page; both folders are paths from the page."""
    places = Places(records, tables_folder)
    paper, tables = archive.paper, list(comparison_tables(archive))
    parts = [
        OPENING.format(title=paper.title, name=paper.name, citation=paper.citation),
        paper.introduction,
        "## What the paper claims",
        _claims([(claim, claim.ask(archive)) for claim in paper.claims], places),
        "## Further findings",
        *_findings([(claim, claim.ask(archive)) for claim in paper.findings], places),
        *(_verdict_section(archive, paper.verdicts, tables, places) if paper.verdicts is not None else ()),
        "## The experiments",
        RULES,
        _overview(tables, places),
        "## What differs, and the likeliest reason",
        _differences(paper, tables, places),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(answered: Sequence[tuple[Claim, Answer]], places: Places) -> str:
    rows = [
        (
            escaped(claim.statement),
            f"**{answer.status}**",
            escaped(answer.because),
            places.table(claim.experiment),
            places.runs(answer.keys),
        )
        for claim, answer in answered
    ]
    return markdown_table(("claim", "our records say", "because", "experiment", "runs"), rows)


def _findings(answered: Sequence[tuple[Claim, Answer]], places: Places) -> list[str]:
    """The findings that hold, then the ones that the records do not confirm."""
    holding = [pair for pair in answered if pair[1].status is ClaimStatus.HOLDS]
    rest = [pair for pair in answered if pair[1].status is not ClaimStatus.HOLDS]
    parts = [_claims(holding, places)] if holding else ["None of our expectations is confirmed yet."]
    if rest:
        parts += ["Expected, but not confirmed by the records so far:", _claims(rest, places)]
    return parts


def _verdict_section(
    archive: RunArchive, section: VerdictSection, tables: Sequence[ComparisonTable], places: Places
) -> tuple[str, str, str, str]:
    """The verdicts of one experiment, those of the published length, and remarks."""
    paper, longer = archive.paper, archive.as_published.audit_rows(section.experiment)
    run = [row for row in longer if row.accuracy is not None]
    lead = f"Trained as long as published, {run[0].spec.epochs} epochs:\n\n" if run else ""
    remarks = (*_other_flags(paper, section, tables), *section.remarks(archive))
    return (
        f"## {section.heading}",
        _verdicts(paper, section, archive.audit_rows(section.experiment), places),
        lead + _verdicts(paper, section, run, places) if run else "",
        "\n".join(f"- {remark}" for remark in remarks),
    )


def _verdicts(paper: Paper, section: VerdictSection, rows: Sequence[AuditRow], places: Places) -> str:
    """Accuracy, frozen control and verdict of every method, over the seeds that were run."""
    body = [
        (*_verdict_row(paper, section, row), places.runs(_keys(row)))
        for row in rows
        if row.spec.control == "none" and row.accuracy is not None and row.verdict is not None
    ]
    heads = ("method", "accuracy", "frozen control", "D3, points", "each seed", "over seeds")
    return markdown_table((*heads, "published accuracy", "published flags", "runs"), body)


def _verdict_row(paper: Paper, section: VerdictSection, row: AuditRow) -> tuple[str, ...]:
    depth = row.findings.get("D3")
    pairs = [seed for seed in row.seeds if seed.control_key]
    alone = "" if len(pairs) == len(row.seeds) else f" ({len(pairs)} of {len(row.seeds)} seeds)"
    name = section.published_row(row.spec)
    beside = ((paper.published.figure(section.experiment, name, quantity), kind) for quantity, kind in BESIDE)
    return (
        escaped(row.label),
        "-" if row.accuracy is None else f"{100 * row.accuracy.mean:.1f} %",
        "-" if row.control is None else f"{100 * row.control.mean:.1f} %",
        "" if depth is None or depth.value is None else f"{depth.value:+.1f}{alone}",
        "; ".join(f"{seed.seed}: {escaped(str(seed.verdict))}" for seed in row.seeds),
        f"**{escaped(str(row.verdict))}**" + (" (one seed)" if len(pairs or row.seeds) == 1 else ""),
        *(escaped(published(figure, kind)) for figure, kind in beside),
    )


def _keys(row: AuditRow) -> list[str]:
    return [key for seed in row.seeds for key in (seed.key, seed.control_key) if key]


def _other_flags(paper: Paper, section: VerdictSection, tables: Sequence[ComparisonTable]) -> list[str]:
    """A sentence for every method whose flags are not the published ones."""
    return [
        f"{escaped(row.row)}: of {escaped(row.heading)} ours raises {escaped(ours(row))}, published "
        f"{escaped(published(row.published, row.kind))}. {escaped(likeliest_reason(paper, table, row))}"
        for table in tables
        if table.stem == section.experiment
        for row in table.rows
        if row.kind == "flags" and row.agreement is Agreement.DIFFERS
    ]


def _overview(tables: Sequence[ComparisonTable], places: Places) -> str:
    rows = []
    for table in tables:
        counts = [str(sum(row.agreement is one for row in table.rows)) for one in Agreement]
        texts = (escaped(text) for text in (table.title, table.ours, table.theirs or "-"))
        rows.append((str(table.number), places.table(table.stem), *texts, *counts))
    heads = ("", "experiment", "question", "ours", "published", *(str(one) for one in Agreement))
    return markdown_table(heads, rows)


def _differences(paper: Paper, tables: Sequence[ComparisonTable], places: Places) -> str:
    """Every row that differs, except in tables that borrow the figures of other experiments."""
    own = [table for table in tables if table.experiment in paper.published.figures]
    rows = [
        (
            places.table(table.stem),
            *(escaped(cell) for cell in (row.row, row.heading, ours(row), published(row.published, row.kind))),
            escaped(difference(row)),
            escaped(likeliest_reason(paper, table, row)),
            places.runs((*row.keys, *row.controls)),
        )
        for table in own
        for row in table.rows
        if row.agreement is Agreement.DIFFERS
    ]
    if not rows:
        return "No number differs so far."
    heads = ("experiment", "row", "quantity", "ours", "published", "difference", "likeliest reason", "runs")
    borrowing = {t.experiment for t in tables if t not in own and any(row.published for row in t.rows)}
    note = f"Not listed: {', '.join(sorted(borrowing))}, whose published figures belong to the experiments below."
    return "\n\n".join((*([escaped(note)] if borrowing else []), markdown_table(heads, rows)))
