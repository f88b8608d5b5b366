"""The page states what the records say of every claim of the paper, its drift and its EP."""

from __future__ import annotations

import pytest
from tests.creditscope_papers.hao2026.made import archive, planned
from tests.papers.made import EXPLODED, HEALTHY, run

from creditscope.papers.archive import RunArchive
from creditscope.papers.document import documents
from creditscope.papers.rendering import Places
from creditscope.papers.tables import comparison_tables
from creditscope.records.run import RunRecord
from creditscope.report.markdown import escaped
from creditscope.runs.spec import RunSpec
from creditscope.study.store import Store
from creditscope_papers.hao2026 import PAPER
from creditscope_papers.hao2026.remarks import remarks


def as_published(spec: RunSpec) -> RunRecord | None:
    """BP is healthy, DFA explodes and is no better than frozen."""
    if spec.control != "none":
        return run(spec, 0.35)
    return run(spec, 0.30, EXPLODED) if spec.method == "dfa" else run(spec, 0.60)


def opposite(spec: RunSpec) -> RunRecord | None:
    return run(spec, 0.35) if spec.control != "none" else run(spec, 0.60, HEALTHY if spec.method == "dfa" else EXPLODED)


def pages(made: RunArchive) -> dict[str, str]:
    return documents(made, "made", Places())


def document(made: RunArchive) -> str:
    return "\n".join(pages(made).values())


ARCHIVES = {
    "nothing": archive(),
    "as published": archive(as_published, "main_audit"),
    "opposite": archive(opposite, "main_audit"),
}
PAGES = {name: document(made) for name, made in ARCHIVES.items()}


def status_of(page: str, statement: str) -> str:
    rows = [line for line in page.splitlines() if line.startswith(f"| {escaped(statement)} |")]
    (status,) = {row.split(" | ")[2] for row in rows}
    return status


@pytest.mark.parametrize("name", ARCHIVES)
def test_every_claim_and_finding_stands_with_its_computed_status(name):
    for claim in (*PAPER.claims, *PAPER.findings):
        assert status_of(PAGES[name], claim.statement) == f"**{claim.ask(ARCHIVES[name]).status}**"


def test_the_status_changes_with_the_records():
    claim = "DFA is below its frozen control"
    assert [status_of(page, claim) for page in PAGES.values()] == ["**undecided**", "**holds**", "**fails**"]


def test_verdicts_of_the_main_audit_stand_beside_the_published_row_of_the_same_index():
    page = pages(ARCHIVES["as published"])["made-verdicts.md"]
    (row,) = [line for line in page.splitlines() if line.startswith("| dfa(index=input) | 30.0 %")]
    assert "**FAIL(D1+D2+D3)** | 30.6 % ± 0.8 | (a) (b) (d) | 42: FAIL(D1+D2+D3); 123: FAIL(D1+D2+D3); 456: F" in row
    other, _ = [line for line in PAGES["as published"].splitlines() if line.startswith("| dfa | 30.0 %")]
    assert "**FAIL(D1+D2+D3)** | - | - |" in other


def test_drift_is_named_though_it_is_advisory_in_the_verdicts():
    def drifting(spec: RunSpec) -> RunRecord | None:
        return run(spec, 0.60, {**HEALTHY, "D4": 0.7 if spec.method == "state_bridge" else 0.1})

    text = "- Flag (c), drift (advisory in the verdicts above): state\\_bridge on 42, 123, 456."
    assert text in document(archive(drifting, "main_audit"))
    assert "Flag (c)" not in PAGES["as published"]


def test_a_run_with_a_second_record_of_another_accuracy_is_named_with_both(tmp_path):
    def write(folder: str, record: RunRecord) -> None:
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{record.key}.json").write_text(record.to_json(), encoding="utf-8")

    for key, spec in planned("main_audit").items():
        if spec.method in ("bp", "state_bridge") and spec.seed == 42:
            write("records", run(spec, 0.40))
            if spec.control == "none":
                write("field", run(spec, 0.40 if spec.method == "bp" else 0.37))
                again = key
    told = RunArchive(PAPER, Store(tmp_path / "nowhere", [tmp_path / "records"]), "laptop")
    text = "\n".join(remarks(told))
    assert f"state\\_bridge, seed 42: 37.00 % in `field/{again}`, 40.00 % in `records/{again}`." in text
    assert "1 run ended elsewhere" in text
    assert "bp, seed" not in text
    assert "ended elsewhere" not in PAGES["as published"]


def test_the_published_ep_is_compared_with_the_published_frozen_control():
    text = "is -3.3 points: by the point estimate D3 fires, by Welch's interval (-12.4 to +5.8) it is undecided."
    assert text in PAGES["nothing"]


def test_rates_that_are_only_tried_are_not_listed_as_differences():
    """Their figures are those of other experiments, which list what differs at the stated rate."""
    made = archive(lambda spec: run(spec, 0.9), "learning_rate", "main_audit")
    rows = [row for table in comparison_tables(made) if table.stem == "learning_rate" for row in table.rows]
    assert any(row.agreement == "differs" for row in rows)
    differences = pages(made)["made-differences.md"]
    assert "[learning" not in differences
    borrowing = (
        "learning\\_rate, nearest\\_readings, readings\\_credit\\_bridge, readings\\_ep, readings\\_state\\_bridge"
    )
    assert f"Not listed: {borrowing}, whose published figures belong to the experiments below." in differences
