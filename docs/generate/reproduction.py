"""Writes the pages and the picture of every paper here and the tables of its experiments, from the records."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path

from docs.generate.field import STYLES

from creditscope.files import write_text
from creditscope.papers.archive import RunArchive
from creditscope.papers.curves import curve_chart, file_name
from creditscope.papers.document import documents
from creditscope.papers.glance import compared_numbers
from creditscope.papers.paper import Paper
from creditscope.papers.picture import dots
from creditscope.papers.rendering import Places, table_files
from creditscope.papers.tables import comparison_tables
from creditscope.report.charts.figures import rendered
from creditscope.report.charts.identity import identity_svg
from creditscope.study.store import Store

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "results" / "tables"
IMAGES = ROOT / "docs" / "images"
PAGES = {"hao2026": "reproduction"}  # any other paper has pages of its own name


def papers() -> list[Paper]:
    """The papers under `src/creditscope_papers`, by name."""
    folders = sorted(path.parent.name for path in (ROOT / "src" / "creditscope_papers").glob("*/published.json"))
    return [import_module(f"creditscope_papers.{name}").PAPER for name in folders]


@cache
def archives() -> dict[str, RunArchive]:
    """The committed records of every paper, by the name of its page."""
    store = Store(ROOT / "nowhere", [ROOT / "results" / "records"])  # the committed records that the pages link to
    return {PAGES.get(paper.name, paper.name): RunArchive(paper, store, paper.budgets[0]) for paper in papers()}


def files() -> dict[Path, str]:
    """Every page and table with its content."""
    written: dict[Path, str] = {}
    for name, archive in archives().items():
        written |= {ROOT / "docs" / file: text for file, text in documents(archive, name, Places()).items()}
        for table in comparison_tables(archive):
            written |= {TABLES / file: text for file, text in table_files(table).items()}
    return written


def pictures() -> dict[Path, str]:
    """The pictures of every paper that has a number to show, for either colour scheme."""
    drawn: dict[Path, str] = {}
    for name, archive in archives().items():
        points = dots(compared_numbers(archive.paper, list(comparison_tables(archive))), name)
        for scheme, style in STYLES.items() if points else ():
            drawn[IMAGES / f"{name}-{scheme}.svg"] = identity_svg(points, style)
        section = archive.paper.curves
        for panel in section.panels if section is not None else ():
            for scheme, style in STYLES.items():
                if (chart := curve_chart(archive, section, panel, style)) is not None:
                    drawn[IMAGES / file_name(name, panel, scheme)] = rendered(chart, "svg").decode()
    return drawn


if __name__ == "__main__":
    for path, text in (files() | pictures()).items():
        write_text(path, text)
