"""Text of a report that somebody sent stays text in every format."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace

import pytest
from tests.study.test_tables import EXPLODED, report

from creditscope.records.report import Report
from creditscope.report.csv_text import cell, csv_text
from creditscope.report.formats import formats
from creditscope.report.views import from_report
from creditscope.terminal import printable

EVIL = r"\input{/etc/passwd}\write18{id} [go](javascript:alert(1)) <script>alert(1)</script> =1+1 | a_b $x$"


def evil() -> Report:
    """A report whose every text was written by somebody else."""
    made = report(EXPLODED)
    finding = replace(made.findings["D1"], code="D1:" + EVIL, title=EVIL, note=EVIL, remedy=EVIL, column=EVIL)
    findings = {**made.findings, "D1:" + EVIL: finding}
    subject = made.subject.model_copy(update={"name": "=" + EVIL, "notes": EVIL, "model": EVIL})
    verdict = replace(made.verdict, warnings=(EVIL,))
    return made.model_copy(update={"findings": findings, "subject": subject, "verdict": verdict})


def test_no_command_of_a_foreign_text_reaches_latex():
    text = formats["latex"].render(from_report(evil()))
    assert r"\textbackslash{}input" in text
    for command in (r"\input", r"\write"):
        assert command not in text
    assert not re.search(r"(?<!\\)\$x", text)


def test_no_markup_of_a_foreign_text_reaches_markdown():
    text = formats["markdown"].render(from_report(evil()))
    assert r"\[go\](javascript:alert(1))" in text
    assert not re.search(r"(?<!\\)\[go", text)
    assert not re.search(r"(?<!\\)<script", text)
    (row,) = (line for line in text.splitlines() if line.startswith("| D1:"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 8  # seven cells: none was added


def test_no_element_of_a_foreign_text_reaches_html():
    text = formats["html"].render(from_report(evil()))
    assert "<script>alert(1)" not in text
    assert 'href="javascript:' not in text


def test_no_cell_of_a_foreign_text_is_a_formula():
    rows = list(csv.DictReader(io.StringIO(formats["csv"].render(from_report(evil())))))
    assert all(row["subject"].startswith("'=") for row in rows)
    assert any(row["note"].endswith("$x$") for row in rows)


@pytest.mark.parametrize(
    "text",
    ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "=" * 50, "\n=1", "＝1+1", "\u200b=1", " \ufeff@A1"],
)
def test_a_text_that_a_spreadsheet_would_compute_is_marked(text):
    assert cell(text) == printable(f"'{text}")


@pytest.mark.parametrize("value", [-1.5, "-1.5", "+inf", "-0.5 0.25 -nan", "a=1", "", None, 3, "1 - 2"])
def test_numbers_and_other_texts_stay_as_they_are(value):
    assert cell(value) == value


@pytest.mark.parametrize("name", [name for name in formats if name != "json"])
def test_no_text_turns_the_direction_of_writing_or_reaches_the_terminal_raw(name):
    turned = "a\u202eDC\u2066\x1b[2J"
    made = evil()
    subject = made.subject.model_copy(update={"name": turned, "notes": turned, "model": turned})
    finding = replace(made.findings["D1"], title=turned, note=turned, remedy=f"`{turned}`")
    text = formats[name].render(from_report(made.model_copy(update={"subject": subject, "findings": {"D1": finding}})))
    assert "202" in text  # it is shown, escaped
    assert not re.search("[\x00-\x08\x0b\x0e-\x1f\u202e\u2066]", text)


def test_a_row_without_a_column_has_an_empty_cell():
    assert csv_text(["a", "=b"], [{"a": 1}, {"=b": "x,y"}]) == 'a,\'=b\n1,\n,"x,y"\n'
