"""Writes the page on the reproduction and the tables of all experiments, from the committed records."""

from __future__ import annotations

from pathlib import Path

from creditscope.files import write_text
from creditscope.papers.book import Book
from creditscope.papers.document import document
from creditscope.papers.experiments import sheets
from creditscope.papers.page import markdown
from creditscope.study.store import Store

ROOT = Path(__file__).resolve().parents[2]
TABLES = ROOT / "results" / "tables"


def files() -> dict[Path, str]:
    """Every file with its content."""
    book = Book(Store(ROOT / "nowhere", [ROOT / "results"]))  # the committed records alone
    found = {ROOT / "docs" / "reproduction.md": document(book)}
    for table in sheets(book):
        found[TABLES / f"{table.stem}.md"] = markdown(table)
        found[TABLES / f"{table.stem}.json"] = table.to_json()
    return found


if __name__ == "__main__":
    for path, text in files().items():
        write_text(path, text)
