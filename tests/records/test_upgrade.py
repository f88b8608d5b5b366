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
from creditscope.runs.spec import RunSpec
from creditscope.study.export import write_records
from creditscope.study.store import Store
from creditscope.verdict import Measurement, Reason, Status

FOLDER = Path(__file__).parents[2] / "results" / "records"
RECORDS = [path for path in sorted(FOLDER.glob("*.json")) if '"checksum"' not in path.read_text(encoding="utf-8")[:40]]


def first_version(record: Path, **changes: Any) -> dict[str, Any]:
    """The report in a record of version 1, with some parts of it exchanged."""
    return {**json.loads(record.read_text(encoding="utf-8"))["report"], **changes}


def read(document: dict[str, Any]) -> Report:
    return Report.parse(json.dumps(document))


def test_every_committed_record_of_version_1_loads() -> None:
    assert len(RECORDS) == 186
    for path in RECORDS:
        report = RunRecord.from_json(path).report
        assert report is not None
        assert report.schema_version == 2
        assert report.provenance.guards["gradient"].passed


def kept(before: Any, after: Any) -> bool:
    """Whether every number and text of the old document is in the new one, but for the mark of gated cosines."""
    if isinstance(before, dict):
        fields = set(before) - {"schema_version", "guards"}
        return all(field in after and kept(before[field], after[field]) for field in fields)
    if isinstance(before, list):
        return len(before) == len(after) and all(map(kept, before, after))
    return bool(before == after or (before, after) == ("gated", ""))


@pytest.mark.parametrize("path", RECORDS[::20], ids=lambda path: path.stem)
def test_every_other_field_stays_as_it_was(path: Path) -> None:
    before, after = json.loads(path.read_text(encoding="utf-8")), json.loads(RunRecord.from_json(path).to_json())
    assert kept(before, after)
    before["report"]["measures"]["gain"]["value"] += 1e-12
    assert not kept(before, after)


def test_what_is_read_is_what_an_audit_writes_today() -> None:
    """Every sentence of a committed record leads to a reason, and D1 counts blocks."""
    reasons = {code: set[Reason]() for code in ("D1", "D3", "D5", "D6", "D9")}
    for path in RECORDS:
        report = RunRecord.from_json(path).report
        assert report is not None
        for code, finding in report.findings.items():
            assert (finding.reason is None) == (finding.status is not Status.SKIPPED)
            if finding.reason is not None:
                reasons[code].add(finding.reason)
        assert all(measure.cause == "" for measure in report.measures.values())
        growth = report.findings["D1"].measurement
        assert growth is None or (growth.axis, len(growth.per_layer)) == ("block", report.subject.depth)
    assert reasons == {
        "D1": {Reason.NOT_APPLICABLE},
        "D3": {Reason.NO_CONTROL},
        "D5": {Reason.NOT_APPLICABLE, Reason.TOO_FEW, Reason.GATED},
        "D6": {Reason.NOT_APPLICABLE, Reason.GATED},
        "D9": {Reason.NOT_APPLICABLE, Reason.NOT_POSSIBLE},
    }


def test_the_seeds_of_d3_get_their_own_field() -> None:
    old = first_version(RECORDS[0])
    measured = {"value": 2.0, "per_layer": [1.0, 3.0], "interval": None, "cause": "", "note": "paired"}
    depth = {**old["findings"]["D3"], "status": "pass", "measurement": measured}
    report = read({**old, "findings": {**old["findings"], "D3": depth}})
    assert report.findings["D3"].measurement == Measurement(2.0, per_seed=(1.0, 3.0), note="paired")


@pytest.mark.parametrize(
    ("code", "title", "variant", "axis"),
    [
        ("D1", "Scale relative to layer 0", "april", "state"),
        ("D1", "Scale stability", "", "block"),
        ("D9", "Hidden backprop, where float64 is impossible", "single", "state"),
    ],
)
def test_a_variant_is_known_by_its_title(code: str, title: str, variant: str, axis: str) -> None:
    old = first_version(RECORDS[0])
    entry = {**old["findings"][code], "title": title, "status": "pass", "measurement": {"value": 1.0}}
    finding = read({**old, "findings": {code: entry}}).findings[code]
    assert finding.measurement is not None
    assert (finding.variant, finding.measurement.axis) == (variant, axis)


def test_a_limit_of_the_users_own_remembers_the_calibrated_one() -> None:
    old = first_version(RECORDS[0])
    own = {**old["findings"]["D1"]["limit"], "at": 100.0, "because": "set by the user; the calibrated limit is 50"}
    limit = read({**old, "findings": {"D1": {**old["findings"]["D1"], "limit": own}}}).findings["D1"].limit
    assert (limit.at, limit.calibrated, limit.origin) == (100.0, 50.0, own["because"])


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


def test_an_export_does_not_rewrite_a_committed_record_that_stands_there_already(tmp_path: Path) -> None:
    committed = RECORDS[0].read_bytes()
    folder, copy = tmp_path / "records", tmp_path / "another checkout"
    for place in (folder, copy):
        place.mkdir()
        (place / RECORDS[0].name).write_bytes(committed)
    store = Store(tmp_path / "store", [folder])
    runs = {RECORDS[0].stem: RunSpec.model_validate(store.record(RECORDS[0].stem).spec)}
    for place in (folder, copy):
        assert write_records(runs, store, place) == 1
        assert (place / RECORDS[0].name).read_bytes() == committed
    assert write_records(runs, store, tmp_path / "elsewhere") == 1
    assert json.loads((tmp_path / "elsewhere" / RECORDS[0].name).read_text(encoding="utf-8"))["schema_version"] == 2
