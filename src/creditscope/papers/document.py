"""The pages of a paper: one to read in a minute, and one for every long table, written from records alone."""

from __future__ import annotations

from collections.abc import Sequence

from creditscope.papers.abstract import abstract
from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import Answer, Claim, ClaimStatus
from creditscope.papers.comparison import TOLERANCE, Agreement
from creditscope.papers.curves import curve_section
from creditscope.papers.glance import ComparedNumber, compared_numbers
from creditscope.papers.paper import Paper
from creditscope.papers.picture import picture
from creditscope.papers.reasons import likeliest_reason
from creditscope.papers.rendering import Places, difference, limit_in_full, ours, theirs
from creditscope.papers.tables import ComparisonTable, comparison_tables
from creditscope.papers.verdicts import verdict_section, verdicts_in_full
from creditscope.records.labels import counted
from creditscope.report.markdown import escaped
from creditscope.report.markdown import table as markdown_table
from creditscope.statistics.intervals import t_quantile

SOURCES = """Every number of these pages is generated from the records under `results/` by `make docs`; only the
explanations are hand-written, and they are shown only where a number differs. `creditscope reproduce {name} EXPERIMENT`
runs or resumes an experiment and writes its table; `creditscope reproduce {name} --list` shows how far each one is.
Source of the published figures: {citation}."""
RULE = f"""**The rule for a row.** *Difference* is ours minus published; norms and growth are compared as decimal
logarithms, and of a published range the nearest point counts. *Limit* is the largest difference that chance or rounding
would explain: the 97.5 % quantile of t times the standard error of the difference over seeds (Welch's; if only one side
reports a spread, we assume that the other has the same one), or half a unit of the last printed digit where that is
larger. If neither side reports a spread, the limit is the tolerance of the kind: {100 * TOLERANCE["share"]:g} points
for accuracies, {TOLERANCE["cosine"]:g} for cosines, {TOLERANCE["degrees"]:g}° for angles, {TOLERANCE["scale"]:g}
decades for scales.

- **differs**: the difference is larger than the limit. About one row in twenty does so by chance.
- **agrees**: within the limit, and also within the tolerance of its kind or the printed digits.
- **undecided**: within the limit, but farther apart than that: too few seeds cannot establish agreement.

Limits are wide because seeds are few: with three seeds on either side the quantile lies between {t_quantile(4.0):.1f}
and {t_quantile(2.0):.1f} standard errors, with two seeds of ours alone it is {t_quantile(1.0):.1f}; every table prints
the standard error, its degrees of freedom and where the spread comes from. Our runs are shorter than the published ones
where the table says so, and a difference may be due to that alone."""
CASES = """The sentences are ours, after the paper. Each run, or group of runs, is one case: a claim **fails** with a
single case against it, **holds** if every case that its rule needs has been run and meets the rule, and is
**undecided** otherwise."""
MORE = {
    "claims": "Claims and findings, with their runs",
    "verdicts": "Verdicts, seed by seed",
    "numbers": "Every published number beside ours",
    "differences": "What differs, and the likeliest reason",
    "experiments": "The experiments",
}


def documents(archive: RunArchive, name: str, places: Places) -> dict[str, str]:
    """The pages of a paper by file name: `name`.md is read in a minute, the long tables have pages of their own."""
    tables = list(comparison_tables(archive))
    bodies = {
        "": _front(archive, name, tables, places),
        "claims": _claims_page(archive, places),
        "verdicts": verdicts_in_full(archive, places),
        "numbers": _numbers_page(compared_numbers(archive.paper, tables), name, places),
        "differences": [RULE, _differences(archive.paper, tables, places)],
        "experiments": [RULE, _overview(tables, places)],
    }
    if archive.paper.verdicts is None:
        del bodies["verdicts"]
    state = "reproduced" if _recorded(archive)[0] else "not run yet"
    titles = {"": f"{archive.paper.title}, {state}"} | {
        part: f"{heading}: {archive.paper.title}" for part, heading in MORE.items()
    }
    return {
        f"{_stem(name, part)}.md": "\n\n".join(text for text in (f"# {titles[part]}", *body) if text) + "\n"
        for part, body in bodies.items()
    }


def _stem(name: str, part: str) -> str:
    return f"{name}-{part}" if part else name


def _front(archive: RunArchive, name: str, tables: Sequence[ComparisonTable], places: Places) -> list[str]:
    """Abstract, picture, claims, verdicts, the rule, and where to read on."""
    paper = archive.paper
    parts = [part for part in MORE if part != "verdicts" or paper.verdicts is not None]
    return [
        abstract(archive, tables, places.tables),
        picture(compared_numbers(paper, tables), name, places.images),
        "## What the paper claims",
        CASES,
        _claims([(claim, claim.ask(archive)) for claim in paper.claims], places, runs=False),
        *(verdict_section(archive, paper.verdicts, tables, places) if paper.verdicts is not None else ()),
        *(curve_section(archive, paper.curves, name, places.images) if paper.curves is not None else ()),
        "## How two numbers are compared",
        RULE,
        "## Notation and sources",
        paper.introduction,
        SOURCES.format(name=paper.name, citation=paper.citation),
        _progress(archive),
        "## The long tables",
        "\n".join(f"- [{MORE[part]}]({_stem(name, part)}.md)" for part in parts),
        "```{toctree}\n:hidden:\n\n" + "\n".join(_stem(name, part) for part in parts) + "\n```",
    ]


def _recorded(archive: RunArchive) -> tuple[int, int]:
    """How many runs of the experiments have a record, and how many there are."""
    keys = {key for name in archive.paper.names for key in archive.plan(name)}
    return sum(archive.record(key) is not None for key in keys), len(keys)


def _progress(archive: RunArchive) -> str:
    """How many runs have a record, while some have none."""
    done, every = _recorded(archive)
    return "" if done == every else f"{done} of {counted(every, 'run')} of these experiments have a record."


def _claims_page(archive: RunArchive, places: Places) -> list[str]:
    paper = archive.paper
    return [
        "## What the paper claims",
        CASES,
        _claims([(claim, claim.ask(archive)) for claim in paper.claims], places),
        "## Further findings",
        *_findings([(claim, claim.ask(archive)) for claim in paper.findings], places),
    ]


def _numbers_page(numbers: Sequence[ComparedNumber], name: str, places: Places) -> list[str]:
    """The table behind the picture; every row has a name that its dot links to."""
    rows = [
        (
            f'<span id="{number.anchor}"></span>{places.table(number.table.stem)}',
            *(escaped(cell) for cell in (number.row.row, number.row.heading, ours(number.row))),
            escaped(theirs(number.row)),
            escaped(difference(number.row)),
            escaped(limit_in_full(number.row)),
            str(number.row.agreement),
            "yes" if number.as_long else "no",
            places.runs((*number.row.keys, *number.row.controls)),
        )
        for number in numbers
    ]
    heads = ("experiment", "row", "quantity", "ours", "published", "difference", "limit", "verdict", "as long", "runs")
    lead = (
        "One row for every published number that we have run, from the longest training that has a record. *As long*: "
        "ours was trained as long as published, or the number belongs to the first epochs. *Limit* is the largest "
        "difference that chance or rounding would explain, the standard error over seeds (s.e.) times a quantile for "
        "its degrees of freedom (d.f.); beyond it a number differs: "
        f"[the rule in full]({name}.md#how-two-numbers-are-compared)."
    )
    return [lead, markdown_table(heads, rows) if rows else "None yet."]


def _claims(answered: Sequence[tuple[Claim, Answer]], places: Places, *, runs: bool = True) -> str:
    rows = [
        (
            escaped(claim.statement),
            escaped(claim.holds_if),
            f"**{answer.status}**",
            escaped(answer.because),
            places.table(claim.experiment),
            *((places.runs(answer.keys),) if runs else ()),
        )
        for claim, answer in answered
    ]
    heads = ("claim", "holds if", "our records say", "because", "experiment")
    return markdown_table((*heads, "runs") if runs else heads, rows)


def _findings(answered: Sequence[tuple[Claim, Answer]], places: Places) -> list[str]:
    """The findings that hold, then the ones that the records do not confirm."""
    holding = [pair for pair in answered if pair[1].status is ClaimStatus.HOLDS]
    rest = [pair for pair in answered if pair[1].status is not ClaimStatus.HOLDS]
    parts = [_claims(holding, places)] if holding else ["None of our expectations is confirmed yet."]
    if rest:
        parts += ["Expected, but not confirmed by the records so far:", _claims(rest, places)]
    return parts


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
            *(escaped(cell) for cell in (row.row, row.heading, ours(row), theirs(row))),
            escaped(difference(row)),
            escaped(limit_in_full(row)),
            escaped(likeliest_reason(paper, table, row)),
            places.runs((*row.keys, *row.controls)),
        )
        for table in own
        for row in table.rows
        if row.agreement is Agreement.DIFFERS
    ]
    if not rows:
        return "No number differs so far."
    heads = ("experiment", "row", "quantity", "ours", "published", "difference", "limit", "likeliest reason", "runs")
    borrowing = {t.experiment for t in tables if t not in own and any(row.published for row in t.rows)}
    note = f"Not listed: {', '.join(sorted(borrowing))}, whose published figures belong to the experiments below."
    return "\n\n".join((*([escaped(note)] if borrowing else []), markdown_table(heads, rows)))
