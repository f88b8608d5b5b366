"""D3 as protocol strict judges it: from right answers or accuracies, with the error of seeds and images."""

from __future__ import annotations

import numpy as np
import pytest
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.diagnostics.depth import UNKNOWN_POINTS
from creditscope.provenance import Source
from creditscope.statistics.margin import margin_of_accuracies, margin_of_answers
from creditscope.verdict import Finding

HARD = np.linspace(0, 1, 200)  # images that both sides find hard, so that pairing them narrows the interval
ANSWERS, CONTROL = np.stack([HARD < 0.8, HARD < 0.79]), np.stack([HARD < 0.5, HARD < 0.51])


def depth(trained: tuple[float, ...] = (0.5,), control: tuple[float, ...] = (0.4,), **rest: object) -> Finding:
    return find("D3", evidence(accuracy=trained, control_accuracy=control, **rest))


@pytest.mark.parametrize("drift", [(1.0, 0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (0.0, 0.0, 0.0)])
def test_blocks_that_never_moved_are_their_own_control(drift):
    found = depth((0.9,), (0.1,), weight_drift=drift)
    assert (found.status, found.value) == ("fires", 0.0)
    assert "its own frozen control" in found.note


@pytest.mark.parametrize("drift", [(0.0, 0.1, 0.0, 0.0), (0.0, 0.0, 0.1, 0.0), (1.0, 1.0), (0.0, 0.0), None])
def test_one_block_that_moved_is_enough_and_embedding_and_readout_alone_have_no_blocks(drift):
    assert depth((0.9,), (0.1,), weight_drift=drift).value == pytest.approx(80.0)


@pytest.mark.parametrize(
    ("margin", "status"), [(0.121, "pass"), (0.119, "undecided"), (-0.079, "undecided"), (-0.081, "fires")]
)
def test_two_lone_numbers_decide_only_ten_points_away_from_the_limit(margin, status):
    found = depth((0.5 + margin,), (0.5,))
    assert found.status == status
    assert found.interval == pytest.approx((100 * margin - UNKNOWN_POINTS, 100 * margin + UNKNOWN_POINTS))
    assert "undecided within 10 points of the limit" in found.note


def test_answers_to_the_same_images_are_compared_image_by_image():
    accuracies = tuple(ANSWERS.mean(1)), tuple(CONTROL.mean(1))
    both = depth(*accuracies, answers=ANSWERS, control_answers=CONTROL, named_seeds=True, accuracy_images=200)
    paired = margin_of_answers(ANSWERS, CONTROL, matched=True)
    assert both.interval == pytest.approx(tuple(100 * end for end in paired.interval), abs=1e-8)
    assert both.value == pytest.approx(100 * paired.value)
    assert both.interval[1] - both.interval[0] < 0.9 * _width(*accuracies)
    for half in ({"answers": ANSWERS}, {"control_answers": CONTROL}):
        one = depth(*accuracies, **half, named_seeds=True, accuracy_images=200)
        plain = margin_of_accuracies(*accuracies, images=200, matched=True)
        assert one.interval == pytest.approx(tuple(100 * end for end in plain.interval), abs=1e-8)


def _width(trained: tuple[float, ...], control: tuple[float, ...]) -> float:
    low, high = margin_of_accuracies(trained, control, images=200, matched=True).interval or (0.0, 0.0)
    return 100 * (high - low)


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (("TYPED", "TYPED"), "accuracy and control accuracy typed in"),
        (("TYPED", "MEASURED"), "; accuracy typed in"),
        (("MEASURED", "TYPED"), "; control accuracy typed in"),
        (("MEASURED", "MEASURED"), ""),
    ],
)
def test_the_note_says_which_number_nobody_measured(sources, words):
    named = dict(zip(("accuracy_source", "control_source"), (Source[one] for one in sources), strict=True))
    note = depth((0.9,), (0.1,), **named).note
    assert words in note
    assert ("typed in" in note) == bool(words)
