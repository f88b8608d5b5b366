"""The audit table of a study as LaTeX, CSV, Markdown, JSON and frames: one row per method, every registered code."""

from __future__ import annotations

import csv
import io
import json
import sys
from types import SimpleNamespace

import pytest
from tests.study.test_tables import EXPLODED, HEALTHY, filled, report

from creditscope.diagnostics import diagnostics
from creditscope.study.table_export import StudyTable
from creditscope.study.tables import audit_table

CODES = {entry.code for entry in diagnostics.values()}


@pytest.fixture
def rows(tmp_path):
    def accuracy(spec):
        return {("bp", "none"): 0.7, ("dfa", "none"): 0.3}.get((spec.method, spec.control), 0.31) + 0.01 * spec.seed

    runs, store = filled(tmp_path, accuracy, lambda spec: report(HEALTHY if spec.method == "bp" else EXPLODED))
    return audit_table(runs, store)


def test_every_method_has_a_row_with_every_registered_code(rows):
    cells = StudyTable("two methods", rows).cells()
    assert [row["method"] for row in cells] == ["bp", "dfa"]
    assert set(cells[0]) >= CODES
    trained = next(row for row in rows if row.label == "bp")
    assert cells[0]["accuracy"] == trained.accuracy.mean
    depth = trained.findings["D3"]
    assert (cells[0]["margin"], cells[0]["margin_low"]) == (depth.value, depth.interval[0])
    assert (cells[1]["D1"], cells[1]["D1_status"], cells[1]["seeds"]) == (7e3, "fires", 3)
    assert cells[1]["verdict"] == str(next(row for row in rows if row.label == "dfa").verdict)


def test_per_run_rows_hold_the_seed_and_the_key(rows):
    cells = StudyTable("two methods", rows, by_run=True).cells()
    assert [(row["method"], row["seed"]) for row in cells] == [(m, s) for m in ("bp", "dfa") for s in (1, 2, 3)]
    assert all(len(row["key"]) == 16 for row in cells)


def test_csv_and_json_hold_the_same_numbers(rows):
    table = StudyTable("two methods", rows)
    parsed = list(csv.DictReader(io.StringIO(table.to_csv())))
    loaded = json.loads(table.to_json())
    for line, row in zip(parsed, loaded, strict=True):
        assert float(line["accuracy"]) == row["accuracy"]
        assert line["D9"] == ""
        assert row["D9"] is None


def test_latex_has_booktabs_a_caption_and_a_label(rows):
    tex = StudyTable("two methods", rows).to_latex()
    for part in (r"\toprule", r"\midrule", r"\bottomrule", r"\caption{two methods.", r"\label{tab:two-methods}"):
        assert part in tex
    lines = [line for line in tex.splitlines() if line.endswith(r"\\")]
    assert len({line.count("&") for line in lines}) == 1
    assert r"\textbf{7,000}" in tex


def test_a_table_of_runs_has_a_caption_and_a_label_of_its_own(rows):
    tex = StudyTable("Which method learns?", rows, by_run=True).to_latex()
    assert r"\caption{Which method learns? One row per run." in tex
    assert r"\label{tab:which-method-learns-runs}" in tex
    assert "medians" not in tex + StudyTable("two methods", rows, by_run=True).to_markdown()


def test_markdown_rows_have_as_many_cells_as_headings(rows):
    text = StudyTable("two methods", rows).to_markdown()
    assert len({line.count("|") for line in text.splitlines() if line.startswith("|")}) == 1
    assert "**7,000**" in text


def test_a_study_and_a_report_become_frames(rows, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda values, columns: values))
    assert StudyTable("two", rows).to_frame()["method"] == ["bp", "dfa"]
    frame = report(HEALTHY).to_frame()
    assert frame["name"] == ["D0", "D1", "D2"]
    assert frame["value"] == [0.0, 1.5, 1e-3]
