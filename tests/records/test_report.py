"""A report survives its file exactly, and a file that is no report is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from creditscope.errors import BadFile
from creditscope.records.judging import judged_findings
from creditscope.records.report import Provenance, Report, Subject
from creditscope.verdict import Finding, Limit, Measurement, Status, Verdict

numbers = st.floats(allow_nan=True, allow_infinity=True)
shares = st.floats(0, 1) | st.just(math.nan)
texts = st.sampled_from(["", "plain", "‖h‖ → ∞", 'quoted "word"\n', "\x00 </script>"])
measurements = st.builds(
    Measurement,
    value=numbers,
    per_layer=st.lists(numbers, max_size=4).map(tuple),
    interval=st.none() | st.tuples(numbers, numbers),
    cause=texts,
    note=texts,
)
limits = st.builds(
    Limit,
    at=numbers | st.integers(-5, 5),
    fires=st.sampled_from(["above", "below"]),
    because=texts,
    unit=st.sampled_from(["decades", "points", "absolute"]),
)
findings = st.builds(
    Finding,
    code=st.sampled_from(["D0", "D1", "D2"]),
    title=texts,
    status=st.sampled_from(list(Status)),
    measurement=st.none() | measurements,
    limit=limits,
    note=texts,
    remedy=texts,
    means=texts,
    does_not_mean=texts,
    warns=st.booleans(),
)


def report(**changes: Any) -> Report:
    given_parts: dict[str, Any] = {
        "subject": Subject(name="DFA", model="ResidualMLP", depth=4),
        "protocol": "three",
        "findings": {"D1": Finding("D1", "Scale", Status.PASS, Measurement(1.4), Limit(50, "above", "reason"), "", "")},
        "verdict": Verdict("INCONCLUSIVE(D3)", "inconclusive", (), ("scale",), ("depth",), "why"),
        "provenance": Provenance(
            creditscope="0", torch="2", python="3", device="cpu", dtype="float32", images=1, batches=1, read="auto"
        ),
    }
    return Report(**{**given_parts, **changes})


def unsealed(made: Report) -> dict[str, Any]:
    """The content of a report without its checksum, as older versions wrote it."""
    content: dict[str, Any] = json.loads(made.to_json())
    del content["checksum"]
    return content


@given(
    st.dictionaries(st.sampled_from(["D0", "D1", "D2"]), findings, max_size=3),
    st.dictionaries(texts, measurements, max_size=2),
    st.none() | st.lists(shares, min_size=1, max_size=3).map(tuple),
    texts,
)
def test_every_report_comes_back_exactly(
    found: dict[str, Finding], measures: dict[str, Measurement], accuracy: tuple[float, ...] | None, name: str
) -> None:
    subject = Subject(name=name, model="M", depth=2, widths=(16, 32))
    found = judged_findings({code: replace(finding, code=code) for code, finding in found.items()})
    before = report(findings=found, measures=measures, accuracy=accuracy, subject=subject).judged_again()
    after = Report.parse(before.to_json())
    assert after.to_json() == before.to_json()
    # repr tells NaN from NaN as equality does not; a limit given as 50 reads 50.0 afterwards
    for code, finding in after.findings.items():
        assert repr(finding.measurement) == repr(found[code].measurement)
        assert finding.status is found[code].status
        assert repr(finding.limit.at) == repr(float(found[code].limit.at))
    assert repr(after.accuracy) == repr(accuracy)
    assert list(after.findings) == list(found)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 5e-324, 0.1 + 0.2, 1.7976931348623157e308, -0.0])
def test_every_number_comes_back_to_its_last_bit(value: float, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report(measures={"m": Measurement(value, (value, 1.0), (value, value))}).to_json(path)
    found = Report.from_json(path).measures["m"]
    assert [each.hex() for each in (found.value, found.per_layer[0])] == [value.hex()] * 2
    assert type(found.per_layer) is tuple
    assert isinstance(found.interval, tuple)


def test_the_file_is_plain_json_that_any_reader_takes(tmp_path: Path) -> None:
    path = tmp_path / "new" / "report.json"
    text = report(measures={"m": Measurement(math.nan)}).to_json(path)
    assert path.read_text(encoding="utf-8") == text

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(text, parse_constant=refuse)["measures"]["m"]["value"] == "NaN"
    assert [entry.name for entry in path.parent.iterdir()] == ["report.json"]


def test_a_report_cannot_be_changed_and_shows_its_verdict() -> None:
    made = report()
    with pytest.raises(ValidationError):
        made.protocol = "four"  # type: ignore[misc]
    assert repr(made) == "Report('DFA', INCONCLUSIVE(D3))"
    assert str(made.verdict) == "INCONCLUSIVE(D3)"


@pytest.mark.parametrize("version", [3, None, "1"])
def test_another_schema_version_is_refused(version: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps({**unsealed(report()), "schema_version": version}))
    with pytest.raises(BadFile) as caught:
        Report.from_json(path)
    assert f"report.json has schema version {version!r}, this creditscope reads 1 and 2." in str(caught.value)
    assert "Fields may have changed their meaning." in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "not json", '{"schema_version": 1}', '{"schema_version": 1, "verdict": 3}'])
def test_a_damaged_report_is_refused(text: str) -> None:
    with pytest.raises(BadFile, match=r"(?s)the text is not a creditscope report: .*Audit again to make one\."):
        Report.parse(text)


@pytest.mark.parametrize("text", ["[1, 2]", "3", "null"])
def test_json_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(BadFile, match="schema version None"):
        Report.parse(text)


def test_an_unknown_field_is_refused_because_it_might_matter() -> None:
    extra = {**unsealed(report()), "surprise": 1}
    with pytest.raises(BadFile, match="surprise"):
        Report.parse(json.dumps(extra))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"The report .*absent\.json cannot be read"):
        Report.from_json(tmp_path / "absent.json")


def test_the_schema_names_every_field_of_a_report() -> None:
    schema = Report.json_schema()
    assert set(json.loads(report().to_json())) == set(schema["properties"])
    assert {"Finding", "Limit", "Measurement", "Verdict", "Provenance", "Subject"} <= set(schema["$defs"])
