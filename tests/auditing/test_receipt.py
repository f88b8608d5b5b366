"""Submissions to the gallery: honest ones become one row, hostile ones are refused in words with exit code 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from docs.generate import gallery
from tests.foreign_models import CLASSES, FEATURES, batches

import creditscope
from creditscope.auditing.receipt import judged_together, received
from creditscope.cli import run
from creditscope.networks.build import build
from creditscope.reading import sealed
from creditscope.records.record import ZEROS
from creditscope.records.report import Report
from creditscope.records.submission import MOST_REPORTS, Submission

DEMO = sorted(Path(gallery.RESULTS / "demo").glob("*.json"))
NAMES = ["--method", "mine", "--network", "resmlp", "--data", "made"]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of one network, audited."""
    folder, paths = tmp_path_factory.mktemp("reports"), []
    for seed in (1, 2):
        network = build("resmlp", FEATURES, CLASSES, seed, d=8, depth=2)
        made = creditscope.audit(network, batches(2, 64), control_accuracy=0.3, seeds=[seed])
        paths.append(folder / f"{seed}.json")
        made.to_json(paths[-1])
    return paths


@pytest.fixture
def submission(reports: list[Path], tmp_path: Path) -> Path:
    """The file that `gallery add` writes."""
    assert run(["gallery", "add", *map(str, reports), *NAMES, "--into", str(tmp_path / "gallery")]) == 0
    (path,) = (tmp_path / "gallery").iterdir()
    return path


def test_what_was_added_is_accepted_and_shown(submission: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gallery", "check", str(submission)]) == 0
    assert "accepted" in capsys.readouterr().out
    (row,) = gallery.submitted(submission.parent)
    assert (row.method, row.network, row.seeds, row.protocol) == ("mine", "resmlp", 2, "strict")
    assert "Submitted by others" in row.notes[0]


def test_the_verdict_over_seeds_is_judged_by_the_interval_over_both(reports: list[Path]) -> None:
    both = [Report.from_json(path) for path in reports]
    findings, verdict = judged_together(both)
    assert "seeds" in findings["D3"].note
    assert findings["D3"].value == pytest.approx(
        100 * (sum(report.accuracy[0] for report in both if report.accuracy) / 2 - 0.3)
    )
    assert verdict.text != "PASS" or findings["D3"].status == "pass"


def test_runs_of_creditscope_name_themselves(tmp_path: Path) -> None:
    specs = {path: json.loads(path.read_text(encoding="utf-8"))["spec"] for path in DEMO}
    own = [path for path, spec in specs.items() if (spec["method"], spec["control"]) == ("dfa", "none")]
    assert run(["gallery", "add", *map(str, own), "--into", str(tmp_path)]) == 0
    (path,) = tmp_path.iterdir()
    found = received(path)
    assert (found.method, found.network, found.data, len(found.reports)) == ("dfa", "resmlp(d=64)", "mnist1d", 3)
    assert run(["gallery", "add", *map(str, reversed(own)), "--into", str(tmp_path)]) == 2  # the same file, once


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "<b>\u202emine"], "method: Value error, a text is one line of printable characters"),
        (["--method", "a\nb"], "one line of printable characters"),
        (["--method", "m" * 61], "at most 60 characters"),
        (["--source", "javascript:alert(1)"], "an address begins with https://"),
        (["--source", "https://x.org/(evil)"], "an address begins with https://"),
        (["--claimed-accuracy", "0.9"], "without --paper"),
        (["--paper", "P", "--claimed-accuracy", "61"], "less than or equal to 1"),
        (["--paper", "P", "--claimed-gamma", "nan"], "claim.gamma"),
    ],
)
def test_a_hostile_option_is_refused(
    reports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    assert run(["gallery", "add", *map(str, reports), *NAMES, *options, "--into", str(tmp_path / "g")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "g").exists()


def test_a_report_without_names_or_twice_is_refused(reports: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["gallery", "add", str(reports[0])]) == 2
    assert "do not name one method" in capsys.readouterr().err
    assert run(["gallery", "add", str(reports[0]), str(reports[0]), *NAMES]) == 2
    assert "one audit would count twice" in capsys.readouterr().err


def test_a_report_that_was_edited_is_refused(
    reports: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "edited.json"
    path.write_text(reports[0].read_text().replace('"images": 128', '"images": 1280'), encoding="utf-8")
    assert run(["gallery", "add", str(path), *NAMES]) == 2
    assert "content hash" in capsys.readouterr().err


Change = Callable[[dict[str, Any]], object]


def forged(path: Path, change: Change, *, hashes: bool = True) -> None:
    """The file changed by somebody who computes checksum and content hashes again."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    if hashes:
        for report in document["reports"]:
            plain = {name: part for name, part in report.items() if name != "content_hash"}
            report["content_hash"] = Report.model_validate_json(json.dumps(plain)).content_hash
    document = {"checksum": ZEROS, **{name: part for name, part in document.items() if name != "checksum"}}
    path.write_bytes(sealed(json.dumps(document).encode()))


def each(document: dict[str, Any]) -> dict[str, Any]:
    return document["reports"][0]


def passed(document: dict[str, Any]) -> None:
    each(document)["verdict"] |= {"text": "PASS", "outcome": "pass"}


def own_limit(document: dict[str, Any]) -> None:
    limit = each(document)["findings"]["D1"]["limit"]
    limit |= {"at": 1e9, "calibrated": 50.0}


def own_code(document: dict[str, Any]) -> None:
    each(document)["findings"]["X1"] = each(document)["findings"]["D0"] | {"code": "X1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: each(d)["findings"]["D1"].update(status="fires"), "D1: the status does not follow"),
        (passed, "the file says PASS, its findings give"),
        (own_limit, "another limit for D1"),
        (own_code, "'X1', which is no diagnostic of creditscope"),
        (lambda d: each(d).update(protocol="three"), "protocol 'three'"),
        (lambda d: each(d).update(accuracy=None), "has no accuracy"),
        (lambda d: each(d)["provenance"].update(creditscope="<script>"), "which creditscope wrote it"),
        (lambda d: each(d)["provenance"].update(images=7), "rests on 7 images"),
        (lambda d: each(d)["provenance"].update(guards={}), "guards switched off"),
        (lambda d: each(d)["provenance"].update(seeds=[2]), "two reports name the same seed"),
        (lambda d: each(d)["subject"].update(notes="n" * 5000), "a text of 5,000 characters"),
        (lambda d: each(d)["subject"].update(parameters=1), "different kind or size"),
        (lambda d: d.update(method="<script>" * 20), "at most 60 characters"),
        (lambda d: d.update(reports=[]), "at least 1 item"),
        (lambda d: d.update(reports=[each(d)] * (MOST_REPORTS + 1)), "at most 32 items"),
        (lambda d: d.update(extra=1), "Extra inputs are not permitted"),
        (lambda d: d.update(schema_version=9), "schema version 9"),
    ],
)
def test_a_forged_submission_is_refused(
    submission: Path, capsys: pytest.CaptureFixture[str], change: Change, said: str
) -> None:
    forged(submission, change)
    assert run(["gallery", "check", str(submission)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error


def test_a_number_that_was_changed_without_its_hash_is_refused(
    submission: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    forged(submission, lambda document: each(document).update(accuracy=[0.99]), hashes=False)
    assert run(["gallery", "check", str(submission)]) == 2
    assert "content hash: the file says" in capsys.readouterr().err
    forged(submission, lambda document: each(document).pop("content_hash"), hashes=False)
    assert run(["gallery", "check", str(submission)]) == 2
    assert "the hash was removed" in capsys.readouterr().err


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b"[" * 200, b'{"schema_version": 2, "reports": 5}'])
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "submission.json"
    path.write_bytes(content)
    assert run(["gallery", "check", str(path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_names_of_others_stay_text_on_the_page(submission: Path) -> None:
    evil = "[x](javascript:alert(1)) <img src=x> | `a` $b$"
    forged(submission, lambda d: d.update(method=evil, claim={"paper": evil, "accuracy": 0.5}), hashes=False)
    made = gallery.submitted(submission.parent)
    for text in (gallery.grid(made), gallery.cards(made)):
        assert "\\<img" in text
        assert "[x](javascript" not in text.replace("\\[x\\](javascript", "")
        assert " <img" not in text
    assert Submission.json_schema()["properties"]["source"]
