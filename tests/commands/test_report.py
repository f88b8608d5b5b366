"""`creditscope report`, and the pages that an audit writes on request."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.report.made_runs import audited, run

from creditscope.records.folder import CHECKED
from creditscope.records.report import Report
from creditscope.report.formats import formats
from creditscope.study.failure import Failure
from creditscope.study.store import Store

PLUGIN = """
from creditscope.report.formats import report_format

@report_format("one-line", title="The verdict alone", suffixes=(".line",))
def one_line(view):
    return str(view.report.verdict)
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("dfa", 1, key="aaa").to_json("store/aaa/record.json")
    run("bp", 1, healthy=True, key="bbb").to_json("store/bbb/record.json")
    audited().to_json("report.json")
    return tmp_path


def test_without_an_option_the_text_page_is_printed(store, creditscope):
    outcome = creditscope("report", "report.json")
    assert outcome.code == 0
    assert outcome.out.splitlines()[0].endswith(" FAIL(D1+D2+D3)")


def test_full_has_every_diagnostic_and_brief_is_three_lines(store, creditscope):
    full, brief = (creditscope("report", "report.json", option).out for option in ("--full", "--brief"))
    assert all(f"\n{code} " in full for code in audited().findings)
    assert "\nVerdict: FAIL(D1+D2+D3)\n" in full
    assert len(brief.splitlines()) == 3


def test_only_one_printed_form_can_be_asked_for(store, creditscope):
    outcome = creditscope("report", "report.json", "--full", "--brief")
    assert outcome.code == 2
    assert "Only one of --format, --full and --brief can be printed, got 2 of them." in outcome.err


def test_one_audit_is_one_page_and_a_store_is_a_folder_of_pages(store, creditscope):
    assert creditscope("report", "report.json", "--out", "one.html").out == "wrote one.html\n"
    assert creditscope("report", "store", "--out", "pages", "--format", "html").out == "wrote pages/index.html\n"
    assert sorted(path.name for path in (store / "pages" / "runs").iterdir()) == ["aaa.html", "bbb.html"]


def test_several_audits_do_not_go_into_one_file(store, creditscope):
    outcome = creditscope("report", "store", "--out", "one.html")
    assert outcome.code == 2
    assert "There are 2 audits, and format html puts each on a page of its own" in outcome.err
    assert not (store / "one.html").exists()


def test_the_files_that_a_store_keeps_for_itself_are_not_read_as_reports(store, creditscope):
    kept = Store("store")
    kept.fail(Failure(key="0123456789abcdef", spec={}, error="ValueError: no", traceback="Traceback"))
    (kept.folder / CHECKED).write_text("{}")
    assert creditscope("report", "store", "--out", "pages", "--format", "html").out == "wrote pages/index.html\n"
    assert len(list((store / "pages" / "runs").iterdir())) == 2
    (kept.folder / "notes.failed.json").write_text("{}")  # not named by a run, so it is somebody's report
    assert creditscope("report", "store").code == 2


def test_figures_are_written_in_the_format_asked_for(store, creditscope):
    outcome = creditscope("report", "store/aaa", "--figures", "figures", "--figure-format", "svg")
    assert outcome.code == 0
    assert "wrote figures/stream.svg" in outcome.out
    assert creditscope("report", "store/aaa", "--figures", "figures", "--figure-format", "gif").code == 2


def test_a_named_format_is_printed(store, creditscope):
    assert r"\toprule" in creditscope("report", "report.json", "--format", "latex").out
    assert "### Reporting form" in creditscope("report", "report.json", "--format", "markdown").out
    assert Report.parse(creditscope("report", "report.json", "--format", "json").out).to_json() == audited().to_json()


def test_a_name_overrules_the_suffix(store, creditscope):
    assert creditscope("report", "report.json", "--out", "page.txt", "--format", "markdown").code == 0
    assert "### Reporting form" in (store / "page.txt").read_text(encoding="utf-8")


def test_an_unknown_format_and_an_unknown_suffix_are_refused(store, creditscope):
    assert (
        "There is no format called 'htm'. Did you mean 'html'?"
        in creditscope("report", "report.json", "--format", "htm").err
    )
    outcome = creditscope("report", "report.json", "--out", "report.doc")
    assert outcome.code == 2
    assert "report.doc has no suffix that belongs to a report format" in outcome.err


def test_a_format_of_a_plugin_is_listed_printed_and_chosen_by_its_suffix(store, creditscope, monkeypatch):
    monkeypatch.setattr(formats, "_entries", {name: formats[name] for name in formats})
    (store / "one_line.py").write_text(PLUGIN)
    listed = creditscope("list", "formats", "--plugin", "one_line").out.splitlines()
    assert "one-line The verdict alone (.line)" in [" ".join(line.split()) for line in listed]
    assert creditscope("report", "report.json", "--out", "verdict.line").code == 0
    assert (store / "verdict.line").read_text() == "FAIL(D1+D2+D3)"


def test_two_formats_with_one_suffix_ask_for_a_name(store, creditscope, monkeypatch):
    twin = replace(formats["csv"], name="other-csv")
    monkeypatch.setattr(formats, "_entries", {name: formats[name] for name in formats} | {"other-csv": twin})
    outcome = creditscope("report", "report.json", "--out", "report.csv")
    assert outcome.code == 2
    assert "more than one format: csv, other-csv" in outcome.err
    assert creditscope("report", "report.json", "--out", "report.csv", "--format", "csv").code == 0


def test_a_file_that_is_no_report_is_bad_input(store, creditscope):
    (store / "notes.json").write_text("{}")
    outcome = creditscope("report", "notes.json")
    assert outcome.code == 2
    assert "schema version None" in outcome.err


def test_an_audit_writes_its_page_its_tables_and_its_verdict(audited, folder):
    outcome = audited("--out", "audit.html", "--out", "audit.tex", "--out", "audit.md")
    assert outcome.code == 3  # no control was given
    assert "INCONCLUSIVE(D3)" in (folder / "audit.html").read_text(encoding="utf-8")
    assert r"\bottomrule" in (folder / "audit.tex").read_text(encoding="utf-8")
    assert "## weights" in (folder / "audit.md").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(audited, folder):
    (folder / "taken.html").mkdir()
    outcome = audited("--out", "taken.html")
    assert outcome.code == 2
    assert "it is a folder" in outcome.err
    assert outcome.out == ""
