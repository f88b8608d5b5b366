"""The page and the tables are those that the committed records give, and every link in them leads somewhere."""

from __future__ import annotations

import re

import pytest
from docs.generate import reproduction

MOST = 20_000_000  # bytes of records and tables


@pytest.fixture(scope="module")
def written():
    return reproduction.files()


def test_the_page_and_every_table_are_current(written):
    stale = [
        path.name for path, text in written.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run make docs"


def test_no_table_is_left_of_an_experiment_that_is_gone(written):
    assert set(reproduction.TABLES.iterdir()) <= set(written), "remove it"


def test_every_link_leads_somewhere(written):
    for path, text in written.items():
        targets = set(re.findall(r"\]\(([^)#:]+)\)", text)) if path.suffix == ".md" else set()
        assert [target for target in targets if not (path.parent / target).exists()] == [], path.name


def test_results_stay_small():
    folder = reproduction.ROOT / "results"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MOST
