"""Every report format writes every kind of audit: with and without credit, failed, open, with NaN, not audited."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys

import pytest
from tests.report.real import audits, tiny_record, tiny_view

from creditscope.records.report import Report
from creditscope.report.formats import ReportFormat, formats
from creditscope.report.views import AuditView, gather

AUDITS = ("credit", "no credit", "fail", "inconclusive", "nan", "not audited")


@pytest.fixture(params=list(formats))
def entry(request) -> ReportFormat:
    return formats[request.param]


@pytest.fixture(params=AUDITS)
def view(request) -> AuditView:
    return audits()[request.param]


def test_the_audits_are_what_they_are_called():
    views = audits()
    assert tuple(views) == AUDITS
    outcomes = {name: view.report.verdict.outcome for name, view in views.items() if view.report is not None}
    assert (outcomes["fail"], outcomes["inconclusive"], outcomes["nan"]) == ("fail", "inconclusive", "fail")
    assert "gamma" in views["credit"].report.measures
    assert "gamma" not in views["no credit"].report.measures
    assert views["not audited"].report is None


def test_a_format_names_itself_its_title_and_its_suffixes(entry):
    assert formats[entry.name] is entry
    assert entry.title
    assert not entry.title.endswith(".")
    assert all(suffix.startswith(".") and suffix == suffix.lower() for suffix in entry.suffixes)


def test_no_two_formats_own_one_suffix():
    suffixes = [suffix for entry in formats.values() for suffix in entry.suffixes]
    assert len(suffixes) == len(set(suffixes))


def test_every_audit_is_written_whole_with_its_verdict(entry, view, tmp_path):
    path = entry.write([view], tmp_path / f"report{(entry.suffixes or ('.txt',))[0]}")
    text = path.read_text(encoding="utf-8")
    assert text == entry.render(view)
    assert text.endswith("\n")
    if view.report is not None:
        assert view.verdict in text.replace("\\", "").replace("<wbr>", "")
        assert view.report.subject.name in text.replace("\\", "")


def test_a_format_says_the_same_twice_and_leaves_the_audit_alone(entry, view):
    before = view.report.to_json() if view.report is not None else ""
    assert entry.render(view) == entry.render(view)
    assert before == (view.report.to_json() if view.report is not None else "")


def test_several_audits_are_one_file_or_one_folder(entry, tmp_path):
    views = list(audits().values())
    if entry.folder is None:
        text = entry.write(views, tmp_path / f"all{(entry.suffixes or ('.txt',))[0]}").read_text(encoding="utf-8")
    else:
        text = entry.write(views, tmp_path / "all", "All audits").read_text(encoding="utf-8")
    for view in views:
        if view.report is not None:
            assert view.verdict in text.replace("\\", "").replace("<wbr>", "")


def test_a_terminal_gets_lines_of_its_width(entry, view):
    text = entry.on_screen([view], 80, colour=False)
    if entry.screen is not None:
        assert max(map(len, text.splitlines())) <= 80


def test_finding_a_format_imports_no_heavy_library():
    code = (
        "from creditscope.report.formats import formats; print(len(formats)); import sys;"
        "print({'torch', 'scipy', 'altair', 'jinja2', 'vl_convert'} & set(sys.modules) or 'none')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(formats)), "none"]


def test_json_is_read_back_as_the_same_report(view):
    if view.report is not None:
        assert Report.parse(formats["json"].render(view)).to_json() == view.report.to_json()


def test_json_of_several_is_a_list():
    views = list(audits().values())
    assert len(json.loads(formats["json"].text(views))) == len(views)


def test_csv_has_one_row_per_finding_and_measure_with_full_numbers(view):
    rows = list(csv.DictReader(io.StringIO(formats["csv"].render(view))))
    if view.report is None:
        assert rows == []
        return
    kinds = [(row["kind"], row["name"]) for row in rows]
    assert kinds == [("finding", code) for code in view.report.findings] + [
        ("measure", m) for m in view.report.measures
    ]
    for row in rows:
        group = view.report.findings if row["kind"] == "finding" else view.report.measures
        number = group[row["name"]].value
        assert row["value"] == ("" if number is None else repr(number))


def test_a_run_that_is_read_from_its_folder_gives_the_same_text(entry, tmp_path):
    tiny_record().to_json(tmp_path / "record.json")
    (view,) = gather(tmp_path)
    assert entry.render(view) == entry.render(tiny_view())
