"""creditscope verify: a report is what an audit wrote, or it is said what differs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.foreign_models import CLASSES, FEATURES, batches
from tests.report.made import HEALTHY
from tests.report.made import report as made

import creditscope
from creditscope.auditing.verification import verify
from creditscope.cli import run
from creditscope.errors import BadFile, InvalidInput
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.records.run import Divergence, RunRecord, after_divergence
from creditscope.report.views import from_runs
from creditscope.verdict import DIVERGED

RECORDS = Path(__file__).parents[2] / "results" / "records"


@pytest.fixture(scope="module")
def report() -> Report:
    network = build("resmlp", FEATURES, CLASSES, 0, d=8, depth=2)
    return creditscope.audit(network, batches(2, 64), accuracy=0.9, control_accuracy=0.3, name="mine")


def outcomes(path: Path) -> dict[str, str]:
    return {check.name: check.outcome for check in verify(path).checks}


def test_a_report_as_it_was_written_holds_in_every_form(report: Report, tmp_path: Path) -> None:
    report.to_json(tmp_path / "report.json")
    report.to_html(tmp_path / "report.html")
    for name in ("report.json", "report.html"):
        found = verify(tmp_path / name)
        assert (found.outcome, found.exit_code, found.content_hash) == ("holds", 0, report.content_hash)
        assert verify(tmp_path / name, report.content_hash[:16]).exit_code == 0
    assert Report.from_json(tmp_path / "report.json").content_hash == report.content_hash


def test_the_hash_is_of_numbers_and_provenance_not_of_names_and_advice(report: Report) -> None:
    renamed = report.model_copy(update={"subject": report.subject.model_copy(update={"name": "other"})})
    advised = {code: replace(finding, remedy="rest", means="") for code, finding in report.findings.items()}
    later = report.model_copy(update={"provenance": report.provenance.model_copy(update={"created": "later"})})
    for same in (renamed, later, report.model_copy(update={"findings": advised})):
        assert same.content_hash == report.content_hash
    finding = report.findings["D1"]
    assert finding.measurement is not None
    moved = replace(finding, measurement=replace(finding.measurement, value=finding.measurement.value + 1e-15))
    origin = report.provenance
    for other in (
        report.model_copy(update={"findings": report.findings | {"D1": moved}}),
        report.model_copy(update={"accuracy": (0.91,)}),
        report.model_copy(update={"provenance": origin.model_copy(update={"images": origin.images + 1})}),
        report.model_copy(update={"provenance": origin.model_copy(update={"dtype": "float16"})}),
    ):
        assert other.content_hash != report.content_hash


def test_every_page_prints_the_hash(report: Report) -> None:
    for name in ("text", "full", "markdown", "latex", "html", "json"):
        assert report.content_hash[:16] in report.to(name), name


def status(document: dict[str, Any]) -> None:
    document["findings"]["D1"]["status"] = "fires"


def value(document: dict[str, Any]) -> None:
    document["findings"]["D1"]["measurement"]["value"] += 1


def limit(document: dict[str, Any]) -> None:
    document["findings"]["D1"]["limit"]["at"] = 1e9


def verdict(document: dict[str, Any]) -> None:
    document["verdict"] |= {"text": "FAIL(D1)", "outcome": "fail"}


def reason(document: dict[str, Any]) -> None:
    document["verdict"]["why"] = "It works."


def seed(document: dict[str, Any]) -> None:
    document["provenance"]["images"] = 10_000


@pytest.mark.parametrize(
    ("change", "differing"),
    [
        (value, {"content hash"}),
        (seed, {"content hash"}),
        (status, {"content hash", "findings"}),
        (limit, {"content hash", "findings"}),
        (verdict, {"verdict"}),
        (reason, {"verdict"}),
    ],
)
def test_a_change_is_found_and_named(
    report: Report, tmp_path: Path, change: Callable[[dict[str, Any]], None], differing: set[str]
) -> None:
    document = json.loads(report.to_json())
    change(document)
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    assert {name for name, outcome in outcomes(path).items() if outcome == "differs"} == {"file", *differing}
    assert verify(path).exit_code == 1
    document["content_hash"] = Report.model_validate_json(
        json.dumps({k: v for k, v in document.items() if k != "checksum"})
    ).content_hash
    path.write_text(json.dumps(document), encoding="utf-8")
    assert outcomes(path)["content hash"] == "holds"  # a forger can compute it; the published one tells
    if "content hash" in differing:
        assert verify(path, report.content_hash[:16]).exit_code == 1


def test_an_edited_word_is_found_by_the_files_checksum_alone(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(report.to_json().replace('"mine"', '"yours"'), encoding="utf-8")
    assert {name for name, outcome in outcomes(path).items() if outcome == "differs"} == {"file"}


def test_a_pass_in_place_of_a_failure_is_never_confirmed(report: Report, tmp_path: Path) -> None:
    network = build("resmlp", FEATURES, CLASSES, 0, d=8, depth=2)
    failed = creditscope.audit(network, batches(2, 64), accuracy=0.3, control_accuracy=0.9)
    document = json.loads(failed.to_json()) | {"verdict": json.loads(report.to_json())["verdict"]}
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    found = {check.name: check for check in verify(path).checks}["verdict"]
    assert (found.outcome, found.text) == ("differs", "the file says PASS, its findings give FAIL(D3)")


UNJUDGED = [{"text": DIVERGED, "outcome": "inconclusive"}, {"text": "control", "outcome": "control"}]


def failing_records() -> list[Path]:
    """Committed records of this version whose verdict is a failure."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(RECORDS.glob("*.json"))}
    audited = {path: json.loads(text) for path, text in texts.items() if '"findings"' in text}
    return [path for path, record in audited.items() if record["report"]["verdict"]["outcome"] == "fail"]


@pytest.mark.parametrize("claimed", UNJUDGED, ids=["diverged", "control"])
def test_a_failure_is_not_hidden_as_a_diverged_run_or_a_control(tmp_path: Path, claimed: dict[str, str]) -> None:
    failed = failing_records()
    assert len(failed) > 20
    for path in failed[::10]:
        record = json.loads(path.read_text(encoding="utf-8"))
        record["report"]["verdict"] |= claimed
        forged = tmp_path / path.name
        forged.write_text(json.dumps({name: record[name] for name in record if name != "checksum"}), encoding="utf-8")
        assert outcomes(forged)["verdict"] != "holds", path
        assert verify(forged).exit_code != 0


def test_a_run_that_diverged_and_a_control_hold(tmp_path: Path) -> None:
    path, stop = tmp_path / "report.json", Divergence(epoch=3, why="the loss is not finite")
    passed = made(HEALTHY)
    passed.model_copy(update={"verdict": after_divergence(passed.verdict, stop)}).to_json(path)
    assert outcomes(path)["verdict"] == "holds"
    controls = [run for run in map(RunRecord.from_json, failing_records()) if run.spec["control"] == "frozen"]
    for view in from_runs(controls[:3]):
        assert view.report is not None
        assert view.report.verdict.outcome == "control"
        view.report.to_json(path)
        assert outcomes(path)["verdict"] == "holds"


def test_an_older_report_is_said_to_have_no_hash(report: Report, tmp_path: Path) -> None:
    document = {k: v for k, v in json.loads(report.to_json()).items() if k not in ("content_hash", "checksum")}
    document["provenance"]["creditscope"] = "0.1.0"
    path = tmp_path / "old.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    found = verify(path)
    assert (found.outcome, found.exit_code) == ("not known", 3)
    assert "the file has none" in found.checks[0].text
    assert "written by creditscope 0.1.0; this is" in found.checks[-1].text
    verdict(document)  # another version may have judged otherwise: not called a forgery
    path.write_text(json.dumps(document), encoding="utf-8")
    assert outcomes(path)["verdict"] == "not known"


def test_a_report_of_another_version_with_a_hash_holds(report: Report, tmp_path: Path) -> None:
    origin = report.provenance.model_copy(update={"creditscope": "9.9"})
    path = tmp_path / "later.json"
    report.model_copy(update={"provenance": origin}).to_json(path)
    assert verify(path).exit_code == 0


def test_committed_records_are_read_and_none_is_called_changed() -> None:
    audited = [
        path for path in sorted(RECORDS.glob("*.json"))[::40] if '"findings"' in path.read_text(encoding="utf-8")
    ]
    assert audited
    for path in audited:
        assert verify(path).outcome != "differs", path


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("nothing", "holds no report"),
        ("[1]", "there are no findings in it"),
        ("<html></html>", "holds no report"),
        ('{"findings": {}, "schema_version": 7}', "has schema version 7"),
        ('{"findings": {}, "schema_version": 2}', "is not a creditscope report"),
        ('{"history": [], "report": null}', "there are no findings in it"),
    ],
)
def test_what_holds_no_report_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadFile, match=message):
        verify(path)


def test_a_published_hash_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="is not a content hash"):
        verify(tmp_path, "xyz")


def test_the_command_prints_every_check_and_its_exit_code_tells(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "report.json"
    report.to_json(path)
    assert run(["verify", str(path)]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert report.content_hash in out
    assert run(["verify", str(path), "--hash", "00000000"]) == 1
    assert "published hash  differs" in capsys.readouterr().out
    assert run(["verify", str(tmp_path / "none.json")]) == 2
