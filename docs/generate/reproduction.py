"""Writes the page of every installed paper and the tables of its experiments, from the committed records."""

from __future__ import annotations

from pathlib import Path

from creditscope.files import write_text
from creditscope.papers.archive import RunArchive
from creditscope.papers.document import document
from creditscope.papers.installed import installed_papers
from creditscope.papers.rendering import table_files
from creditscope.papers.tables import comparison_tables
from creditscope.study.store import Store

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "results" / "tables"
PAGES = {"hao2026": "reproduction.md"}  # any other paper has a page of its own name


def files() -> dict[Path, str]:
    """Every file with its content."""
    written: dict[Path, str] = {}
    for paper in installed_papers().values():
        store = Store(ROOT / "nowhere", [ROOT / "results"])  # the committed records alone
        archive = RunArchive(paper, store, paper.budgets[0])
        written[ROOT / "docs" / PAGES.get(paper.name, f"{paper.name}.md")] = document(
            archive, records="../results/records", tables_folder="../results/tables"
        )
        for table in comparison_tables(archive):
            written |= {TABLES / name: text for name, text in table_files(table).items()}
    return written


if __name__ == "__main__":
    for path, text in files().items():
        write_text(path, text)
