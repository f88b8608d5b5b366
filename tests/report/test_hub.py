"""Reports as other people's software reads them: model-index, .eval_results and JSON-LD."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.foreign_models import CLASSES, FEATURES, batches

import creditscope
from creditscope.errors import InvalidInput
from creditscope.networks.build import build
from creditscope.records.report import Report
from creditscope.report.hub import yaml_text
from creditscope.report.json_ld import claim_review


@pytest.fixture(scope="module")
def report() -> Report:
    network = build("resmlp", FEATURES, CLASSES, 0, d=8, depth=2)
    return creditscope.audit(network, batches(2, 64), accuracy=0.9, control_accuracy=0.3, name="</script> mine")


def with_nan(report: Report) -> Report:
    finding = report.findings["D1"]
    assert finding.measurement is not None
    broken = replace(finding, measurement=replace(finding.measurement, value=math.nan))
    return report.model_copy(update={"findings": report.findings | {"D1": broken}})


def test_a_model_index_names_accuracies_every_measured_diagnostic_and_the_verdict(report: Report) -> None:
    (entry,) = report.to_model_index("owner/name", url="https://example.org/report.html")
    (result,) = entry["results"]
    assert (entry["name"], result["task"], result["dataset"]["type"]) == (
        "</script> mine",
        {"type": "image-classification"},
        "owner/name",
    )
    metrics = {metric["type"]: metric for metric in result["metrics"]}
    assert metrics["accuracy"]["value"] == 0.9
    assert metrics["creditscope-control-accuracy"]["value"] == 0.3
    assert metrics["creditscope-verdict"]["value"] == "PASS"
    assert metrics["creditscope-verdict"]["args"]["content_hash"] == report.content_hash
    measured = {f"creditscope-{code}" for code, finding in report.findings.items() if finding.value is not None}
    assert measured < metrics.keys()
    assert metrics["creditscope-D1"]["args"] == {"fires": "above", "limit": 50.0, "status": "pass"}
    assert result["source"]["url"] == "https://example.org/report.html"
    assert "source" not in report.to_model_index()[0]["results"][0]
    assert report.to_model_index()[0]["results"][0]["dataset"]["name"] == "128 images of the audit"


def test_a_number_that_is_not_finite_is_a_text_everywhere(report: Report) -> None:
    broken = with_nan(report)
    metrics = {metric["type"]: metric for metric in broken.to_model_index()[0]["results"][0]["metrics"]}
    assert metrics["creditscope-D1"]["value"] == "nan"
    assert json.dumps(claim_review(broken), allow_nan=False)


def test_eval_results_hold_the_accuracy_and_note_the_audit(report: Report, tmp_path: Path) -> None:
    text = report.to_eval_results("owner/name", "test", path=tmp_path / ".eval_results" / "mine.yaml")
    assert (tmp_path / ".eval_results" / "mine.yaml").read_text(encoding="utf-8") == text
    assert text.startswith('- dataset:\n    id: "owner/name"\n    task_id: "test"\n  value: 0.9\n  date: "20')
    assert f"audited: PASS (protocol strict), 30.0 % with frozen blocks; report {report.content_hash[:16]}" in text


@pytest.mark.parametrize(("dataset", "message"), [("mnist", "is not the id of a dataset"), ("a/b", "has no accuracy")])
def test_an_entry_that_no_leaderboard_could_read_is_refused(report: Report, dataset: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        report.model_copy(update={"accuracy": None}).to_eval_results(dataset)


def test_yaml_numbers_have_a_point_and_control_characters_are_escaped() -> None:
    assert yaml_text({"a": 1e-07, "b": 2.5, "c": 3.0, "d": 1e22}) == "a: 1.0e-07\nb: 2.5\nc: 3.0\nd: 1.0e+22\n"
    assert yaml_text([{"x:y": 'a\x85\n"b', "z": {"deep": ["n", 1]}}]).startswith('- "x:y": "a\\u0085\\n\\"b"\n  z:\n')


def test_the_page_carries_its_claim_card_as_a_claim_review(report: Report) -> None:
    page = report.to("html")
    (found,) = re.findall(r'<script type="application/ld\+json">(.*?)</script>', page, re.DOTALL)
    review = json.loads(found)
    assert review == claim_review(report)
    assert (review["@context"], review["@type"]) == ("https://schema.org", "ClaimReview")
    assert review["claimReviewed"] == "</script> mine: accuracy 90.0 %"
    rating = review["reviewRating"]
    assert (rating["ratingValue"], rating["bestRating"], rating["alternateName"]) == (3, 3, "PASS")
    assert review["identifier"]["value"] == report.content_hash
    failed = report.model_copy(update={"verdict": replace(report.verdict, outcome="fail", text="FAIL(D3)")})
    assert claim_review(failed)["reviewRating"]["ratingValue"] == 1
    control = report.model_copy(update={"verdict": replace(report.verdict, outcome="control", text="control")})
    assert "reviewRating" not in claim_review(control)
