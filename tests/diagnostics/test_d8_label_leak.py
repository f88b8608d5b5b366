"""D8 fires as soon as one answer knows its label, and warns beside the verdict."""

from __future__ import annotations

import pytest
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.evidence.credit import LabelLeak
from creditscope.protocols import judge, protocol_named
from creditscope.verdict import Missing, Reason


@pytest.mark.parametrize(("moved", "status"), [(0, "pass"), (1, "fires"), (1000, "fires")])
def test_one_answer_that_moves_with_its_label_is_enough(moved, status):
    found = find("D8", evidence(leak=LabelLeak(moved / 1000, moved // 2, 1000)))
    assert (found.value, found.status) == (moved / 1000, status)


def test_it_warns_but_fails_no_network():
    leaking = find("D8", evidence(leak=LabelLeak(0.5, 40, 100)))
    verdict = judge(protocol_named("three"), {"D8": leaking})
    assert verdict.shown == ()
    assert verdict.warnings == (
        "D8 Label leak: the logits of 50.0% of 100 images change with their labels; 40 predictions flip",
    )


def test_one_prediction_flips():
    assert find("D8", evidence(leak=LabelLeak(0.01, 1, 100))).note.endswith("; 1 prediction flips")


@pytest.mark.parametrize(
    ("given_evidence", "why"),
    [
        (evidence(), "no credit was given"),
        (evidence(leak=Missing(Reason.NOT_POSSIBLE, "asked twice")), "asked twice"),
    ],
)
def test_d8_is_skipped_where_nothing_can_be_told(given_evidence, why):
    found = find("D8", given_evidence)
    assert (found.status, found.note) == ("skipped", why)
