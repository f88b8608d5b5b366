"""The page and the tables are those that the committed records give, and every link in them leads somewhere."""

from __future__ import annotations

import re
import shlex

import pytest
from docs.generate import reproduction
from tests.test_documents import blocks_of

from creditscope.cli import run
from creditscope_papers.hao2026 import PAPER

MOST = 60_000_000  # bytes of records and tables: about 600 records of 60 kB, and what is computed from them


@pytest.fixture(scope="module")
def written():
    return reproduction.files()


def test_the_page_and_every_table_are_current(written):
    stale = [
        path.name for path, text in written.items() if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run make docs"


@pytest.mark.slow
def test_the_pictures_are_current():
    assert {
        path.name for path, svg in reproduction.pictures().items() if path.read_text(encoding="utf-8") != svg
    } == set()


def test_every_dot_links_to_a_row_of_the_table_behind_it(written):
    for path in reproduction.IMAGES.glob("reproduction-*.svg"):
        links = set(re.findall(r'<a href="([^"#]*)\.html#([^"]*)"', path.read_text(encoding="utf-8")))
        assert links
        for page, anchor in links:
            assert f'id="{anchor}"' in written[reproduction.ROOT / "docs" / f"{page}.md"]


def test_no_table_is_left_of_an_experiment_that_is_gone(written):
    assert set(reproduction.TABLES.iterdir()) <= set(written), "remove it"


def test_every_link_leads_somewhere(written):
    for path, text in written.items():
        targets = set(re.findall(r"\]\(([^)#:]+)\)", text)) if path.suffix == ".md" else set()
        assert [target for target in targets if not (path.parent / target).exists()] == [], path.name


def test_results_stay_small():
    folder = reproduction.ROOT / "results"
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < MOST


def commands(page: str) -> list[list[str]]:
    """Every `creditscope reproduce` that a page tells to type."""
    lines = [
        line
        for block in blocks_of((reproduction.ROOT / page).read_text(encoding="utf-8"), "")
        for line in block.splitlines()
    ]
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("creditscope reproduce")]


@pytest.mark.parametrize("page", ["README.md", "docs/tour.md", "docs/studies.md"])
def test_the_commands_of_the_pages_are_understood(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    found = [words for words in commands(page) if "NAME" not in words]
    assert ["reproduce", "--list"] in found
    for words in found:
        assert run([*words, "--tables-only"]) == 0
    named = {word for words in found for word in words[1:] if not word.startswith("-")} - {"paper"}
    assert named <= {*PAPER.names, PAPER.name}


def words_of(text: str) -> set[str]:
    """All that is no number."""
    return {word for word in text.split() if not any(sign.isdigit() for sign in word)}


def test_the_tour_shows_such_a_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    results = str(reproduction.ROOT / "results")
    assert run(["reproduce", "random_init", "--tables-only", "--results", results]) == 0
    shown, *_ = capsys.readouterr().out.strip().rpartition("\nwrote")
    blocks = blocks_of((reproduction.ROOT / "docs" / "tour.md").read_text(encoding="utf-8"), "")
    (block,) = [block for block in blocks if block.startswith("Is the audit silent")]
    assert words_of(block) == words_of(shown)
