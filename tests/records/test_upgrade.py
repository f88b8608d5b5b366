"""Files of schema version 1 are read as version 2, and are not changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from creditscope.errors import BadFile
from creditscope.provenance import Guard, GuardStatus
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.records.upgrade import EVERY_LAYER

RECORDS = sorted((Path(__file__).parents[2] / "results" / "records").glob("*.json"))


def first_version(record: Path, **changes: Any) -> dict[str, Any]:
    """The report in a record of version 1, with some parts of it exchanged."""
    return {**json.loads(record.read_text(encoding="utf-8"))["report"], **changes}


def read(document: dict[str, Any]) -> Report:
    return Report.parse(json.dumps(document))


def test_every_committed_record_is_of_version_1_and_loads() -> None:
    assert len(RECORDS) == 186
    for path in RECORDS:
        report = RunRecord.from_json(path).report
        assert report is not None
        assert report.schema_version == 2
        assert report.provenance.guards["gradient"].passed


def test_nothing_but_guards_versions_and_exact_layers_is_different_afterwards() -> None:
    before = json.loads(RECORDS[0].read_text(encoding="utf-8"))
    after = json.loads(RunRecord.from_json(RECORDS[0]).to_json())
    for document in (before, before["report"]):
        document["schema_version"] = 2
    before["report"]["provenance"]["guards"] = {
        "deterministic": {"status": "passed", "text": ""},
        "gradient": {"status": "passed", "text": "finite difference within 0.01 %, in float64"},
    }
    after["report"].pop("exact_layers")
    for part in (*after["report"]["measures"].values(), *after["report"]["findings"].values()):
        (part.get("measurement", part) or {}).pop("per_seed", None)
    assert after == before


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        ("passed", Guard(GuardStatus.PASSED)),
        ("passed: it is, in float64", Guard(GuardStatus.PASSED, "it is, in float64")),
        ("not possible: half precision", Guard(GuardStatus.NOT_POSSIBLE, "half precision")),
        ("a guess: one block: h_L is its output", Guard(GuardStatus.GUESS, "one block: h_L is its output")),
        ("switched off", Guard(GuardStatus.OFF)),
    ],
)
def test_a_guards_sentence_becomes_a_status_and_a_text(text: str, guard: Guard) -> None:
    old = first_version(RECORDS[0])
    assert read({**old, "provenance": {**old["provenance"], "guards": {"it": text}}}).provenance.guards == {"it": guard}


def test_a_guard_with_an_unknown_outcome_is_refused() -> None:
    old = first_version(RECORDS[0])
    with pytest.raises(BadFile, match="guards"):
        read({**old, "provenance": {**old["provenance"], "guards": {"it": "perhaps: who knows"}}})


@pytest.mark.parametrize(
    ("note", "aggregation", "layers"),
    [
        ("mean cosine; without layer 4, exact by construction (with it 0.3); layer 0 apart: 0.1", "", (4,)),
        ("mean cosine; without layer 3, 4, exact by construction (with it 0.3)", "", (3, 4)),
        ("mean cosine; exact by construction at every deep layer", "", (1, 2, 3, 4)),
        ("exact by construction at every deep layer", EVERY_LAYER, None),
        ("mean cosine; layer 0 apart: 0.1", "mean Γ 0.9, without its largest layer 0.8", ()),
    ],
)
def test_exact_layers_are_taken_from_the_notes(note: str, aggregation: str, layers: tuple[int, ...] | None) -> None:
    old = first_version(RECORDS[0])
    gamma = {"value": 0.5, "per_layer": [0.1, 0.2, 0.3, 0.4, 1.0], "note": note}
    findings = {**old["findings"], "D5": {**old["findings"]["D5"], "note": aggregation}}
    report = read({**old, "findings": findings, "measures": {"gamma": gamma}})
    assert report.exact_layers == (tuple(range(5)) if layers is None else layers)


@pytest.mark.parametrize("part", ["findings", "measures", "provenance"])
@pytest.mark.parametrize("garbage", [3, None, [], {"D3": 1}, {"D3": {"measurement": 1}}])
def test_garbage_of_version_1_is_refused_in_the_usual_words(part: str, garbage: Any) -> None:
    with pytest.raises(BadFile, match="the text is not a creditscope report"):
        read(first_version(RECORDS[0], **{part: garbage}))
