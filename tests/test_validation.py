"""The page on validation and the calibrated limits are those that the stored run gives."""

from __future__ import annotations

import pytest
from docs.generate import validation
from tests.planted.faults import BASES, FAULTS
from tests.planted.healthy import HEALTHY
from tests.thirdparty.trained_networks import NETWORKS

from creditscope.diagnostics import diagnostics
from creditscope.protocols import PROTOCOLS

RUN = validation.results()


def test_the_page_is_current() -> None:
    assert validation.PAGE.read_text(encoding="utf-8") == validation.page(RUN), "run make docs"


def test_the_stored_run_has_every_case_of_the_suite() -> None:
    assert {(row["base"], row["name"]) for row in RUN["faults"]} == {(fault.base, fault.name) for fault in FAULTS}
    names = {sound.name for sound in HEALTHY} | {f"{name}, trained, with its control" for name in BASES}
    assert {row["name"] for row in RUN["healthy"]} == names
    watched = RUN["weightwatcher"]
    assert {row["name"] for row in watched["healthy"]} == names
    assert len(watched["faults"]) == len(FAULTS)


@pytest.mark.parametrize("code", validation.CALIBRATED)
def test_a_calibrated_limit_is_the_geometric_middle_of_its_gap(code: str) -> None:
    limit, gap = diagnostics[code].limit, validation.gaps(RUN)[code]
    assert limit.at == validation.limits(RUN)[code]
    assert all(f"{end:.2g}" in limit.because for end in (gap.sound, gap.broken)), limit.because


@pytest.mark.parametrize("code", validation.CALIBRATED)
def test_a_diagnostic_can_fail_a_network_if_and_only_if_its_gap_is_a_decade_wide(code: str) -> None:
    assert validation.gaps(RUN)[code].decides == (code in PROTOCOLS["strict"].codes)


def test_the_networks_that_faults_are_planted_in_have_a_reference_above_the_floor() -> None:
    bases = [row for row in RUN["healthy"] if row["name"].endswith("with its control")]
    assert len(bases) == len(BASES)
    assert not any(validation.fires(row, "D2:tail") for row in bases)


def test_no_knowable_fault_passed_in_silence_and_no_sound_network_failed() -> None:
    graded = [*validation.graded(RUN, "network"), *validation.graded(RUN, "claim")]
    assert [row["name"] for row in graded if row["silent"]] == []
    assert [row["name"] for row in graded if row["grade"] == "fails" and row["outcomes"]["strict"] != "fail"] == []
    sound = validation.sound_networks(RUN)
    assert [row["name"] for row in sound if row["outcomes"]["strict"] == "fail"] == []
    still_open = [row for row in sound if row["outcomes"]["strict"] == "inconclusive"]
    for row in still_open:  # no control and nothing trained, or a margin that one network does not decide
        statuses = {row["findings"][code]["status"] for code in ("D3", "D10") if code in row["findings"]}
        assert "undecided" in statuses if row["trained"] else not statuses, row["name"]


def test_a_fault_that_passes_has_a_warning_beside_the_verdict() -> None:
    passed = [row for row in validation.graded(RUN, "network") if row["outcomes"]["strict"] == "pass"]
    assert [row["name"] for row in passed if not row["warnings"]] == []


def test_no_trained_network_of_other_people_fails() -> None:
    rows = RUN["trained"]
    assert {row["package"] for row in rows} == {trained.package for trained in NETWORKS}
    assert [row["package"] for row in rows if row["verdict"] != "INCONCLUSIVE(D3)" or row["warnings"]] == []
