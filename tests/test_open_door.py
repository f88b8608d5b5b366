"""A diagnostic of a new number and one of another prefix appear everywhere, in natural order, from their entries."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import creditscope
from creditscope.cli import run
from creditscope.diagnostics import diagnostics
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.report.formats import formats
from creditscope.report.views import from_report

STUDY = """
name = "tiny"
title = "One short run"
plugins = ["d100", "x3"]
[fixed]
network = "resmlp"
"network.d" = 8
"network.depth" = 2
data = "mnist1d"
method = "dfa"
epochs = 1
batch_size = 500
[grid]
seed = [1]
"""
CODES = [*(entry.code for entry in diagnostics.values() if not entry.variant), "D100", "X3"]


def called(*arguments: str, folder: Path) -> str:
    environment = os.environ | {"PYTHONPATH": str(Path(creditscope.__file__).parents[1]), "COLUMNS": "140"}
    command = [sys.executable, "-m", "creditscope", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=environment)
    assert done.returncode in (0, 1, 3), done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one run, audited by two diagnostics more."""
    folder = tmp_path_factory.mktemp("study")
    for code in ("D100", "X3"):
        assert run(["new", "diagnostic", code, "--out", str(folder)]) == 0
    (folder / "study.toml").write_text(STUDY)
    called("study", "run", "study.toml", "--trust-plugins", folder=folder)
    return folder


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    (path,) = (folder / "runs").glob("*/record.json")
    found = RunRecord.from_json(path).report
    assert found is not None
    return found


def test_the_audit_measures_both_in_natural_order(report: Report) -> None:
    assert [code for code in report.findings if ":" not in code] == CODES
    assert {report.findings[code].status for code in ("D100", "X3")} == {"pass"}
    assert str(report.verdict).startswith(("PASS", "INCONCLUSIVE(D3)", "FAIL"))


@pytest.mark.parametrize("name", [name for name in formats if name != "json"])
def test_every_format_shows_both_after_d9(report: Report, name: str) -> None:
    text = formats[name].render(from_report(report))
    body = text[text.index("Passed: " if name in ("text", "brief") else "Finite numbers") :]
    places = [body.index(code) for code in ("D9", "D100", "X3")]
    assert places == sorted(places)
    if name in ("full", "markdown", "html"):
        assert "‖h‖/min" in text  # the column that the entry names


def test_explain_and_list_know_both(folder: Path) -> None:
    both = ("--plugin", "d100", "--plugin", "x3")
    codes = [line.split()[0] for line in called("list", "diagnostics", *both, folder=folder).splitlines()]
    assert [code for code in codes if ":" not in code] == CODES
    assert "Spread of scale" in called("explain", "x3", *both, folder=folder)
    assert called("explain", *both, folder=folder).index("D100") > 0


def test_the_page_of_the_study_has_a_column_for_each(folder: Path) -> None:
    called("study", "report", "study.toml", "--html", "pages", "--plugin", "d100", "--plugin", "x3", folder=folder)
    page = (folder / "pages" / "index.html").read_text(encoding="utf-8")
    heads = [page.index(f">{code}<") for code in ("D9", "D100", "X3")]
    assert heads == sorted(heads)


def test_a_report_with_unknown_codes_is_shown_without_their_plugins(folder: Path, report: Report) -> None:
    report.to_json(folder / "report.json")
    assert re.search(
        r"^X3 +Spread of scale +pass", called("report", "report.json", "--full", folder=folder), re.MULTILINE
    )
