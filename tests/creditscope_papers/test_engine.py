"""The installed papers stand on an engine that knows nothing of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import creditscope.papers
from creditscope.methods import methods
from creditscope.papers.installed import installed_papers

ENGINE = sorted(Path(creditscope.papers.__file__).parent.glob("*.py"))


def texts(path: Path) -> Iterator[str]:
    """Every string of a file that is not a docstring."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" not in node.value:
            yield node.value


def test_every_claim_and_finding_says_when_it_holds():
    for paper in installed_papers().values():
        assert all(claim.holds_if for claim in (*paper.claims, *paper.findings))


def test_hao2026_is_installed():
    assert "hao2026" in installed_papers()


@pytest.mark.parametrize("path", ENGINE, ids=lambda path: path.name)
def test_the_engine_names_no_paper_experiment_or_method(path):
    names = {name for paper in installed_papers().values() for name in (paper.name, *paper.names)} | set(methods)
    assert not names & set(texts(path))
