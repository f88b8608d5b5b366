"""Planted faults of credit and answers are noticed, and sound credit raises no alarm."""

from __future__ import annotations

import pytest
from tests.planted.credit_faults import FAULTS, SOUND, CreditFault, SoundCredit, base

from creditscope import Report, audit

ABOUT_CREDIT = ("D5", "D6", "D7", "D8", "D9", "D13")


def noticed(report: Report) -> set[str]:
    """The codes about credit that fire, or that warn beside the verdict."""
    warned = {warning.split()[0] for warning in report.verdict.warnings}
    return {code for code in ABOUT_CREDIT if report.findings[code].status == "fires" or code in warned}


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_planted_fault_is_noticed(fault: CreditFault) -> None:
    report = audit(**fault.plant(base()))
    if fault.unknown:
        assert not noticed(report)
        assert report.findings["D6"].status == "skipped"
    elif fault.shows is not None:
        assert fault.shows(report)
    else:
        assert noticed(report) & set(fault.seen)


@pytest.mark.slow
@pytest.mark.parametrize("sound", SOUND, ids=[sound.name for sound in SOUND])
def test_sound_credit_raises_no_alarm(sound: SoundCredit) -> None:
    report = audit(**sound.plant(base()))
    assert noticed(report) == set()
    assert "pass" in {report.findings[code].status for code in ABOUT_CREDIT}


def test_every_fault_says_what_must_be_noticed_or_why_it_cannot_be() -> None:
    assert len(FAULTS) >= 12
    assert len(SOUND) >= 6
    assert all(bool(fault.seen) + bool(fault.shows) + bool(fault.unknown) == 1 for fault in FAULTS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
