"""Comparison tables for the terminal and as Markdown: numbers in words, nothing computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean, stdev
from textwrap import fill

from rich import box
from rich.table import Table

from creditscope.batch import PUBLISHED_BATCH
from creditscope.papers.archive import RECORDS
from creditscope.papers.comparison import LOGARITHMIC, TOLERANCE, Agreement, Basis, Kind
from creditscope.papers.published import PublishedFigure
from creditscope.papers.tables import ComparisonRow, ComparisonTable
from creditscope.report.markdown import escaped
from creditscope.report.markdown import table as markdown_table
from creditscope.study.display.table import drawn

HEADINGS = ("row", "quantity", "ours", "published", "difference", "verdict")
IN_FULL = ("row", "quantity", "ours", "published", "difference", "limit", "verdict", "note", "runs")
FROM_TABLES = f"../{RECORDS}"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of records, tables and pictures, as paths from the page."""

    records: str = f"../results/{RECORDS}"
    tables: str = "../results/tables"
    images: str = "images"

    def runs(self, keys: Iterable[str]) -> str:
        """Links to the records of runs."""
        return links(keys, self.records)

    def table(self, stem: str) -> str:
        """A link to a table."""
        return f"[{escaped(stem)}]({self.tables}/{stem}.md)"


def table_files(table: ComparisonTable, records: str = FROM_TABLES) -> dict[str, str]:
    """The files of a table by name: Markdown whose numbers link to the records in `records`, and JSON."""
    return {f"{table.stem}.md": table_markdown(table, records), f"{table.stem}.json": table.to_json()}


def table_text(table: ComparisonTable, width: int) -> str:
    """The table for a terminal."""
    grid = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    longest = max((len(word) for row in table.rows for word in row.row.split()), default=0)
    for heading in HEADINGS:
        grid.add_column(heading, overflow="fold", min_width=longest if heading == "row" else None)
    last = ""
    for row in table.rows:
        missing = f"\n({_missing(row)})" if _missing(row) else ""
        name, last = "" if row.row == last else row.row + missing, row.row
        verdict = "DIFFERS" if row.agreement is Agreement.DIFFERS else str(row.agreement)
        apart = ", limit ".join(part for part in (difference(row), _without_unit(row)) if part)
        grid.add_row(name, row.heading, ours(row), theirs(row), apart, verdict)
    caption = fill(table_caption(table), width)
    return "\n\n".join((table.title, caption, drawn(grid, width), f"{agreement_counts(table.rows)}."))


def table_markdown(table: ComparisonTable, records: str = FROM_TABLES) -> str:
    """The table as Markdown; every number links to the records of its runs."""
    rows = [
        (
            *(escaped(cell) for cell in (row.row, row.heading, ours(row), theirs(row))),
            escaped(difference(row)),
            escaped(limit_in_full(row)),
            f"**{row.agreement}**" if row.agreement is Agreement.DIFFERS else str(row.agreement),
            escaped("; ".join(part for part in (row.note, _missing(row)) if part)),
            links((*row.keys, *row.controls), records),
        )
        for row in table.rows
    ]
    grid = markdown_table(IN_FULL, rows)
    parts = (f"# {table.title}", escaped(table_caption(table)), f"{agreement_counts(table.rows)}.", grid)
    return "\n\n".join(parts) + "\n"


def table_caption(table: ComparisonTable) -> str:
    """The experiment, how both sides were trained, and the rule of its own quantities."""
    theirs = f"published: {table.theirs}" if table.theirs else "not published"
    trained = f"Experiment {table.number}, {table.experiment}. Ours: {table.ours} (budget {table.budget}); {theirs}."
    return f"{trained} {table.rule}".rstrip()


def links(keys: Iterable[str], folder: str = FROM_TABLES) -> str:
    """Keys as links to their records."""
    return " ".join(f"[{key[:6]}]({folder}/{key}.json)" for key in keys)


def agreement_counts(rows: Iterable[ComparisonRow]) -> str:
    """How many rows end in which verdict."""
    agreements = [row.agreement for row in rows]
    return ", ".join(f"{one}: {agreements.count(one)}" for one in Agreement if one in agreements)


def _missing(row: ComparisonRow) -> str:
    """The seeds that were not run yet."""
    return f"seeds not run: {', '.join(map(str, row.missing))}" if row.missing and row.keys else ""


def ours(row: ComparisonRow) -> str:
    """Our numbers: mean ± std and the number of seeds; for scales the geometric mean and the range."""
    if row.texts:
        different = list(dict.fromkeys(row.texts))
        text = different[0] if len(different) == 1 else _by_seed(row)
        return f"{number(row.values[0], row.kind)}: {text}" if row.values else text
    if not row.values:
        return "-"
    if len(row.values) == 1:
        return number(row.values[0], row.kind)
    if row.kind in ("count", "epoch") or any(not math.isfinite(value) for value in row.values):
        return ", ".join(number(value, row.kind) for value in row.values)
    if row.kind in LOGARITHMIC and min(row.values) > 0:
        centre = math.exp(fmean(math.log(value) for value in row.values))
        ends = " to ".join(number(end, row.kind) for end in (min(row.values), max(row.values)))
        return f"{number(centre, row.kind)} ({ends})"
    return f"{_with_spread(fmean(row.values), stdev(row.values), row.kind)} ({len(row.values)} seeds)"


def _by_seed(row: ComparisonRow) -> str:
    """Texts that differ between seeds, each with the seeds that have it."""
    if len(row.seeds) != len(row.texts):
        return ", ".join(row.texts)
    pairs = list(zip(row.texts, row.seeds, strict=True))
    seeds = {text: [str(seed) for other, seed in pairs if other == text] for text in row.texts}
    return "; ".join(
        f"{text} on {'seed' if len(own) == 1 else 'seeds'} {', '.join(own)}" for text, own in seeds.items()
    )


def _with_spread(centre: float, spread: float, kind: Kind) -> str:
    """A mean and its spread, the mean to the digits of a spread that the usual ones would round away."""
    if kind == "share" and 0 < spread < 5e-4:
        return f"{100 * centre:.2f} % ± {100 * spread:.2f}"
    if kind in ("cosine", "size") and 1e-6 < spread < 1e-3 <= abs(centre):
        places = 1 - math.floor(math.log10(spread))
        return f"{centre:+.{places}f} ± {spread:.{places}f}"
    return f"{number(centre, kind)} ± {number(spread, kind, sign=False).removesuffix(' %')}"


def published(figure: PublishedFigure | None, kind: Kind) -> str:
    """A published figure."""
    if figure is None:
        return "-"
    if figure.never:
        return "never"
    if figure.flags is not None:
        return " ".join(figure.flags) or "none"
    if figure.values:
        return ", ".join(printed(value, kind) for value in figure.values)
    if figure.high is not None:
        high = printed(figure.high, kind)
        return f"at most {high}" if figure.low is None else f"{printed(figure.low, kind)} to {high}"
    spread = "" if figure.std is None else f" ± {printed(figure.std, kind, sign=False).removesuffix(' %')}"
    if figure.mean is None:
        return "-"
    text = printed(figure.mean, kind) + spread
    if figure.images == PUBLISHED_BATCH:
        return text
    return f"{figure.mean * figure.images / PUBLISHED_BATCH:.2g} ({text} at N = {figure.images:,})"


def theirs(row: ComparisonRow) -> str:
    """The published figure of a row, with the unit of its kind."""
    text = published(row.published, row.kind)
    return f"{text}°" if row.kind == "degrees" and row.published is not None else text


def printed(value: float, kind: Kind, *, sign: bool = True) -> str:
    """A published number with its own digits and no others, but for a final 0, which the data file does not keep."""
    if kind == "share":
        return f"{(Decimal(repr(value)) * 100).normalize():f} %"
    return f"{value:+g}" if kind == "cosine" and sign and value else f"{value:g}"


def difference(row: ComparisonRow) -> str:
    """Ours minus published, in the unit of its kind."""
    if row.difference is None or not math.isfinite(row.difference):
        return ""
    return _amount(row.difference, row.kind, "+")


def limit(row: ComparisonRow) -> str:
    """The size beyond which a difference counts; empty where only the same number agrees."""
    if not difference(row) or row.basis is None:
        return ""
    if row.limit is None:
        return f"{TOLERANCE[row.kind]:g} decades"
    return _amount(row.limit, row.kind) if row.limit else ""


def _without_unit(row: ComparisonRow) -> str:
    """The limit to stand beside a difference in the same unit."""
    return limit(row) if row.kind == "size" else limit(row).removesuffix(" decades").removesuffix(" pp")


def limit_in_full(row: ComparisonRow) -> str:
    """The limit, the standard error that it was made of, and what this rests on."""
    text = limit(row)
    if not text or row.basis is None:
        return ""
    if row.standard_error is None or row.freedom is None or row.limit is None or row.basis is Basis.DIGITS:
        return f"{text}: {row.basis}"
    error = _amount(row.standard_error, row.kind)
    return f"{text} = {row.limit / row.standard_error:.3g} × s.e. {error}, {row.freedom:.3g} d.f.: {row.basis}"


def _amount(value: float, kind: Kind, sign: str = "") -> str:
    if kind == "share":
        return f"{100 * value:{sign}.{1 if abs(value) >= 1e-3 or not value else 2}f} pp"
    if kind == "degrees":
        return f"{value:{sign}.1f}°"
    if kind in LOGARITHMIC:
        return f"{value:{sign}.2f} decades" if abs(value) >= 0.01 or not value else f"{value:{sign}.1g} decades"
    return f"{value:{sign}.3g}"


def number(value: float, kind: Kind, *, sign: bool = True) -> str:
    """One number of a kind."""
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "not fired" if kind == "epoch" else "infinite"
    if kind == "share":
        return f"{100 * value:.1f} %"
    if kind == "points":
        return f"{value:+.1f}" if sign else f"{value:.1f}"
    if kind == "degrees":
        return f"{value:.1f}°"
    if kind in ("count", "epoch"):
        return f"{value:.3g}"
    if kind in ("cosine", "size") and abs(value) >= 1e-3:
        return f"{value:+.3f}" if sign else f"{value:.3f}"
    return f"{value:.2g}" if value and not 1e-2 <= abs(value) < 1e4 else f"{value:.3g}"
