"""`creditscope report`, and the pages that an audit writes on request."""

from __future__ import annotations

import pytest
from tests.report.made_runs import audited, run


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
    assert "Verdict: FAIL(D1+D2+D3)" in outcome.out


def test_one_audit_is_one_page_and_a_store_is_a_folder_of_pages(store, creditscope):
    assert creditscope("report", "report.json", "--html", "one.html").out == "wrote one.html\n"
    assert creditscope("report", "store", "--html", "pages").out == "wrote pages/index.html\n"
    assert sorted(path.name for path in (store / "pages" / "runs").iterdir()) == ["aaa.html", "bbb.html"]


def test_several_audits_do_not_go_into_one_file(store, creditscope):
    outcome = creditscope("report", "store", "--html", "one.html")
    assert outcome.code == 2
    assert "holds 2 audits, one.html is one file" in outcome.err
    assert not (store / "one.html").exists()


def test_figures_are_written_in_the_format_asked_for(store, creditscope):
    outcome = creditscope("report", "store/aaa", "--figures", "figures", "--format", "svg")
    assert outcome.code == 0
    assert "wrote figures/stream.svg" in outcome.out
    assert creditscope("report", "store/aaa", "--figures", "figures", "--format", "gif").code == 2


def test_a_dash_prints_latex_and_markdown(store, creditscope):
    assert r"\toprule" in creditscope("report", "report.json", "--latex", "-").out
    assert "### Reporting form" in creditscope("report", "report.json", "--markdown", "-").out


def test_a_file_that_is_no_report_is_bad_input(store, creditscope):
    (store / "notes.json").write_text("{}")
    outcome = creditscope("report", "notes.json")
    assert outcome.code == 2
    assert "schema version None" in outcome.err


def test_an_audit_writes_its_page_its_tables_and_its_verdict(audited, folder):
    outcome = audited("--html", "audit.html", "--latex", "audit.tex", "--markdown", "audit.md")
    assert outcome.code == 3  # no control was given
    assert "INCONCLUSIVE(D3)" in (folder / "audit.html").read_text(encoding="utf-8")
    assert r"\bottomrule" in (folder / "audit.tex").read_text(encoding="utf-8")
    assert "## weights" in (folder / "audit.md").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_refused_before_anything_is_measured(audited, folder):
    (folder / "taken").mkdir()
    outcome = audited("--html", "taken")
    assert outcome.code == 2
    assert "it is a folder" in outcome.err
    assert outcome.out == ""
