"""A run has one verdict: audit, report in every format, and the pages of a study say the same of it."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest
from tests.study.made import write_study as write_study_file

from creditscope.cli import run
from creditscope.diagnostics import diagnostics
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.report.formats import formats
from creditscope.report.views import gather
from creditscope.study.saved_runs import beside_controls

SMALL = ["--option", "d=16", "--option", "depth=2", "--data", "mnist1d", "--epochs", "3", "--seed", "1"]
STUDY = """
name = "one"
controls = ["frozen"]
[fixed]
network = "resmlp"
"network.d" = 16
"network.depth" = 2
data = "mnist1d"
epochs = 1
method = "dfa"
[grid]
seed = [1]
"""
VERDICT = re.compile(r"\b(?:FAIL|INCONCLUSIVE)\([D0-9+]*\)|\bPASS\b")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "dfa"
    assert run(["train", "--method", "dfa", *SMALL, "--controls", "frozen", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def audited(trained: Path) -> Report:
    """The report that `creditscope audit` wrote."""
    out = trained.parent / "audit.json"
    run(["audit", str(trained), "--out", str(out)])
    return Report.from_json(out)


def test_the_audit_is_saved_with_the_run_and_its_control(trained, audited):
    frozen = RunRecord.from_json(trained / "controls" / "frozen" / "record.json")
    saved = RunRecord.from_json(trained / "record.json").report
    assert saved.to_json() == audited.to_json()
    assert saved.control_accuracy == (frozen.accuracy,)


@pytest.mark.parametrize("name", list(formats))
def test_report_says_what_audit_said_in_every_format(trained, audited, name, capsys):
    verdict = str(audited.verdict)
    assert run(["report", str(trained), "--format", name]) == 0
    printed = capsys.readouterr().out
    text = printed.replace("\\", "")  # LaTeX and Markdown escape some signs
    assert set(VERDICT.findall(text)) - {"PASS"} == {verdict} - {"PASS"}
    assert verdict in text
    share = f"{100 * audited.control_accuracy[0]:.1f} %"
    if name == "json":
        assert Report.parse(printed).to_json() == audited.to_json()
    elif name == "csv":
        rows = list(csv.DictReader(io.StringIO(text)))
        assert {(row["verdict"], row["control_accuracy"]) for row in rows} == {
            (verdict, repr(audited.control_accuracy[0]))
        }
    elif name == "model-index":  # the hub's format has shares, not per cent
        assert f"value: {audited.control_accuracy[0]}" in text
    else:
        assert share in text


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one run and its frozen control, trained by `creditscope study run`."""
    folder = tmp_path_factory.mktemp("study")
    write_study_file(folder, STUDY)
    assert run(["study", "run", str(folder / "study.toml"), "--store", str(folder / "runs")]) == 0
    return folder / "runs"


def runs_in(store: Path) -> dict[str, RunRecord]:
    records = [RunRecord.from_json(path) for path in sorted(store.glob("*/record.json"))]
    return {record.spec["control"]: record for record in records}


def test_a_run_of_a_study_has_the_verdict_of_its_audit_wherever_it_is_shown(store, tmp_path, capsys):
    own = runs_in(store)["none"]
    folder = store / own.key
    texts = {}
    for name, source in {"of a folder": folder, "of a store": store}.items():
        assert run(["report", str(source), "--format", "csv"]) == 0
        rows = csv.DictReader(io.StringIO(capsys.readouterr().out))
        texts[f"report {name}"] = {row["verdict"] for row in rows if row["key"] == own.key}
    study = ["study", "report", str(store.parent / "study.toml"), "--store", str(store), "--html", str(tmp_path)]
    assert run(study) == 0
    capsys.readouterr()
    page = (tmp_path / "runs" / f"{own.key}.html").read_text(encoding="utf-8")
    texts["page of a study"] = set(VERDICT.findall(page.partition("</title>")[0]))
    assert run(["study", "show", own.key, "--store", str(store)]) == 0
    texts["study show"] = set(re.findall(r"─ (\S+)$", capsys.readouterr().out, flags=re.MULTILINE))
    run(["audit", str(folder)])
    texts["audit"] = set(re.findall(r"─ (\S+)$", capsys.readouterr().out, flags=re.MULTILINE))
    assert len(set.union(*texts.values())) == 1, texts
    frozen = runs_in(store)["frozen"].accuracy
    assert runs_in(store)["none"].report.control_accuracy == (frozen,)


def test_a_page_offers_the_json_of_the_verdict_that_it_shows(store, tmp_path):
    import base64

    own = runs_in(store)["none"]
    out = tmp_path / "page.html"
    assert run(["report", str(store / own.key), "--out", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    link = re.search(r'href="data:application/json;base64,([^"]*)"', page)
    assert link is not None
    record = RunRecord.parse(base64.b64decode(link[1]).decode())
    assert str(record.report.verdict) in page.partition("</title>")[0]


def test_a_study_without_controls_says_what_the_audit_beside_the_control_said(store, tmp_path, capsys):
    own = runs_in(store)["none"]
    run(["audit", str(store / own.key)])
    audited = set(re.findall(r"─ (\S+)$", capsys.readouterr().out, flags=re.MULTILINE))
    alone = write_study_file(tmp_path, STUDY.replace('controls = ["frozen"]', ""))
    assert run(["study", "report", str(alone), "--store", str(store), "--html", str(tmp_path / "pages")]) == 0
    table = capsys.readouterr().out
    page = (tmp_path / "pages" / "runs" / f"{own.key}.html").read_text(encoding="utf-8")
    assert set(VERDICT.findall(table)) == set(VERDICT.findall(page.partition("</title>")[0])) == audited
    frozen = f"{100 * runs_in(store)['frozen'].accuracy:.1f}"
    assert frozen in table
    assert f"{frozen} %" in page


OLD = Path(__file__).parents[2] / "results" / "records" / "003bb1beec441f5a.json"


def test_an_old_record_is_shown_in_current_words_with_its_own_numbers():
    stored = RunRecord.from_json(OLD).report
    (view,) = gather(OLD)
    (shown,) = beside_controls([view])
    assert json.loads(OLD.read_text(encoding="utf-8"))["schema_version"] == 1
    for code, finding in shown.report.findings.items():
        own = stored.findings[code]
        assert (finding.status, finding.limit) == (own.status, own.limit)
        assert repr(finding.measurement) == repr(own.measurement)  # NaN is not equal to itself
        assert bool(finding.remedy) == bool(own.remedy)
        assert finding.means == diagnostics[code].means
        assert finding.remedy in ("", diagnostics[code].remedy(finding.status, finding.reason, finding.cause))
    assert str(shown.report.verdict) == str(stored.verdict)


def test_a_control_is_called_a_control_wherever_it_is_shown(store, tmp_path, capsys):
    key = runs_in(store)["frozen"].key
    shown = {}
    for name, command in {
        "report": ["report", str(store / key)],
        "study show": ["study", "show", key, "--store", str(store)],
        "audit": ["audit", str(store / key)],
    }.items():
        assert run(command) == 0
        shown[name] = capsys.readouterr().out
    study = ["study", "report", str(store.parent / "study.toml"), "--store", str(store), "--html", str(tmp_path)]
    assert run(study) == 0
    capsys.readouterr()
    assert ": control</title>" in (tmp_path / "runs" / f"{key}.html").read_text(encoding="utf-8")
    for name, text in shown.items():
        assert "─ control\n" in text, name
        assert "This run is the frozen control." in text, name
        assert "train one" not in text, name
