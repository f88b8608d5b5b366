"""Trained networks of other people are audited without a hint and without an alarm."""

from __future__ import annotations

import pytest
from tests.thirdparty.trained_networks import NETWORKS, Trained
from tests.thirdparty.trained_suite import audited

pytestmark = [pytest.mark.thirdparty, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("trained", NETWORKS, ids=[trained.package for trained in NETWORKS])
def test_a_trained_network_is_audited_without_an_alarm(trained: Trained) -> None:
    report = audited(trained)
    assert report.verdict.text == "INCONCLUSIVE(D3)", report.verdict.why  # nobody has its frozen control
    assert report.verdict.warnings == ()
    fires = {code: finding for code, finding in report.findings.items() if finding.status == "fires"}
    assert set(fires) <= {"D2"}
    assert all(finding.cause == "fitted" for finding in fires.values())
    assert report.findings["D11"].status == "pass"


@pytest.mark.parametrize("trained", NETWORKS, ids=[trained.package for trained in NETWORKS])
def test_its_weights_are_the_trained_ones(trained: Trained) -> None:
    """Without the right weights, inputs or labels it would guess."""
    report = audited(trained)
    assert report.accuracy is not None
    assert report.accuracy[0] > 2 * trained.chance
