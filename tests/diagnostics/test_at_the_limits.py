"""Numbers that lie exactly on an edge, and what the notes and remedies say there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from tests.diagnostics.credit_by_hand import credit
from tests.diagnostics.evidence_by_hand import directions, evidence, find

from creditscope.batch import PUBLISHED_BATCH
from creditscope.diagnostics import diagnostics, examine_all
from creditscope.diagnostics.hidden_backprop import ALMOST_ONE
from creditscope.diagnostics.precision import _rounding
from creditscope.diagnostics.reference import FLOOR, reference_gain
from creditscope.diagnostics.scale import GROWN
from creditscope.evidence.credit import HiddenBackprop, Null
from creditscope.evidence.records import Evidence, LabelLeak, ReadoutProfile, Rival
from creditscope.modes import WITHOUT_GROWTH
from creditscope.protocols import PROTOCOLS
from creditscope.verdict import Missing, Reason, Status

BACKWARD = ((1.0, 1.0, 1.0),) * 3


def influences(*blocks: float, shapes: tuple[bool, ...] = (True, True)) -> Evidence:
    """Three states and two blocks whose influence is the same for every image."""
    steps = torch.tensor(blocks, dtype=torch.float64)[:, None].expand(-1, 3)
    return evidence(BACKWARD, BACKWARD, (1.0, 1.0, 1.0), step_norms=steps, same_shape=shapes)


def test_the_mean_of_gamma_must_be_above_zero_and_its_z_at_least_three() -> None:
    assert find("D5", credit((0.3, -0.3, 0.0))).note.endswith("so no layer can carry it")
    mean = 0.03
    assert find("D5", credit((mean,) * 3, sigma=mean / 2.999)).reason is Reason.NOT_APPLICABLE
    judged = find("D5", credit((mean,) * 3, sigma=mean / 3.001))
    assert judged.status is Status.PASS
    assert judged.note == "mean Γ 0.03, 0.03 without its largest layer"
    uneven = find("D5", credit((0.9, 0.15, 0.15)))
    assert uneven.note == "mean Γ 0.4, 0.15 without its largest layer"


def test_the_smallest_network_with_a_deep_layer_has_two_states() -> None:
    assert find("D6", credit((0.5,))).reason is Reason.NOT_APPLICABLE
    assert find("D6", credit((0.5, 0.5))).status is Status.PASS


def test_credit_is_gated_only_where_every_deep_state_is_untrusted() -> None:
    assert find("D6", credit((0.5, 0.5, 0.5), untrusted=frozenset({1, 2}))).reason is Reason.GATED
    assert find("D6", credit((0.5, 0.5, 0.5), untrusted=frozenset({2}))).status is Status.PASS
    assert find("D6", credit((0.5, 0.5, 0.5), untrusted=frozenset({0, 2}))).status is Status.PASS


@pytest.mark.parametrize(("z", "words"), [(-3.01, True), (-2.99, False), (2.99, False), (3.01, False)])
def test_credit_is_anti_aligned_below_minus_three(z: float, words: bool) -> None:
    found = find("D6", credit((0.0, 0.01 * z), sigma=0.01))
    assert ("anti-aligned" in found.note) == words


def test_three_standard_deviations_are_beyond_chance_and_not_yet_anti_aligned() -> None:
    """Draws of -1/4, 0 and 1/4 have a standard deviation of exactly 1/4."""
    draws = tuple((draw,) * 3 for draw in (-0.25, 0.0, 0.25))
    above, below = (credit((own,) * 3, sigma=None, null=Null(draws, (own,) * 3)) for own in (0.75, -0.75))
    assert (find("D5", above).status, find("D6", above).value) == (Status.PASS, 3.0)
    assert "anti-aligned" not in find("D6", below).note


def test_blocks_a_thousandth_as_influential_as_the_best_are_named() -> None:
    assert find("D12", influences(1.0, 1e-9)).note == "most influential: block 0; without influence: block 1"
    assert find("D12", influences(1.0, 0.95e-3)).note.endswith("without influence: block 1")
    assert find("D12", influences(1.0, 1e-3)).note == "most influential: block 0"
    assert find("D12", influences(100.0, 50.0)).note == "most influential: block 0"
    assert find("D12", influences(0.0, 0.0)).note == "most influential: block 0"
    assert find("D12", influences(0.5, 1e-9)).note.endswith("without influence: block 1")
    three = evidence(
        BACKWARD + BACKWARD[:1], BACKWARD + BACKWARD[:1], (1.0,) * 3,
        step_norms=torch.tensor([[1e-9], [1.0], [1e-9]], dtype=torch.float64).expand(-1, 3), same_shape=(True,) * 3,
    )  # fmt: skip
    assert find("D12", three).note == "most influential: block 1; without influence: blocks 0, 2"


def test_one_block_that_keeps_the_shape_is_enough_for_d12() -> None:
    found = find("D12", influences(0.25, 0.5, shapes=(True, False)))
    assert (found.value, found.status) == (0.25, Status.PASS)


@pytest.mark.parametrize("value", [0.99, 0.9900001])
def test_precisions_that_agree_at_the_limit_are_not_said_to_disagree(value: float) -> None:
    assert "agree to 0.01" in _rounding(value, "float32")
    assert "disagree" in _rounding(0.9899, "float32")


def test_d2_says_why_collapsed_cannot_be_told_from_fitted() -> None:
    small = ((1.0, 1.0), (1e-9, 1e-9))
    fitted = find("D2", evidence(small, small, (0.0, 0.0)))
    assert "no image has an error, so collapsed cannot be told from fitted" in fitted.note
    unknown = replace(evidence(small, small), error_norms=Missing(Reason.NOT_GIVEN, "no logits"))
    assert "no logits were given, so collapsed cannot be told from fitted" in find("D2", unknown).note


def test_a_reference_at_its_floor_has_not_collapsed() -> None:
    found = find("D2", evidence(((1.0,), (1.0,)), ((1.0,), (PUBLISHED_BATCH * FLOOR,)), (1.0,)))
    assert (found.status, found.cause, found.note) == (Status.PASS, "fitted", "gain ‖g_L‖/‖e‖ 1.28e-05")


def test_the_gain_is_that_of_the_deepest_state() -> None:
    assert reference_gain(evidence(((1.0,),) * 3, ((8.0,), (4.0,), (2.0,)), (0.5,))) == 4.0


def test_the_tail_of_the_reference_is_that_of_the_images_with_an_error() -> None:
    found = find("D2:tail", evidence(((1.0, 1.0), (1.0, 1.0)), ((1.0, 1.0), (2.0, 2.0)), (0.0, 1.0)))
    assert found.value == pytest.approx(1 / 128)
    fitted = find("D2:tail", evidence(((1.0,),), ((1.0,),), (0.0,)))
    assert (fitted.status, fitted.note) == (Status.UNDEFINED, "no image has an error, so gains are 0/0")


@pytest.mark.parametrize(
    ("growth", "gradient", "cause"),
    [
        (GROWN, 1e-9, WITHOUT_GROWTH),
        (math.nextafter(GROWN, math.inf), 1e-9, ""),
        (1.0, PUBLISHED_BATCH * math.nextafter(FLOOR, 0), WITHOUT_GROWTH),
        (1.0, PUBLISHED_BATCH * FLOOR, ""),
    ],
)
def test_a_stream_has_grown_above_fifty_and_a_reference_is_small_below_its_floor(
    growth: float, gradient: float, cause: str
) -> None:
    assert find("D2:tail", evidence(((1.0,), (growth,)), ((1.0,), (gradient,)), (1.0,))).cause == cause


def test_a_state_without_a_number_is_the_lowest_of_all() -> None:
    tail = find("D2:tail", evidence(((1.0,),) * 3, ((1.0,), (math.nan,), (1e-3,)), (1.0,)))
    assert (tail.status, tail.note) == (Status.UNDEFINED, "lowest at h_1")
    dead = find("D11", evidence(((1.0,),) * 3, ((1.0,), (math.nan,), (1e-3,)), (1.0,)))
    assert dead.status is Status.UNDEFINED
    assert dead.note.startswith("lowest at h_1;")


def test_a_protocol_that_sets_no_limit_shows_the_number_without_a_judgement() -> None:
    alike = torch.ones(8, 3) / 3**0.5
    for given, judged, shown in [
        (directions(alike), Status.FIRES, Status.MEASURED),
        (directions(alike * 0), Status.UNDEFINED, Status.UNDEFINED),
        (None, Status.SKIPPED, Status.SKIPPED),
    ]:
        told = {name: examine_all(evidence(directions=given), PROTOCOLS[name])["D4"] for name in ("four", "strict")}
        assert (told["four"].status, told["strict"].status) == (judged, shown)
        assert (told["strict"].remedy == "") == (shown is Status.MEASURED)


def test_d10_names_its_cause_where_only_the_embedding_is_there_to_compare() -> None:
    rivals = (Rival("at the embedding", 0.3, 300, 10), Rival("with the blocks set back", 0.55, 40, 35))
    one, two = (
        find("D10", evidence(profile=ReadoutProfile((0.3, 0.5, 0.6), given, 1000, 4000)))
        for given in (rivals[:1], rivals)
    )
    assert (one.cause == "", two.cause) == (False, "")
    assert diagnostics["D10"].remedy(Status.FIRES, cause=one.cause).startswith("Pass `initial=`")
    assert one.note.startswith("R_L 60.0 % against 30.0 % at the embedding; rise after the first block")


def test_d10_has_the_limit_of_d3() -> None:
    assert diagnostics["D10"].limit.at == diagnostics["D3"].limit.at


def test_only_label_leaks_and_hidden_backprop_warn_beside_any_verdict() -> None:
    assert {name for name, entry in diagnostics.items() if entry.warns} == {"D8", "D9", "D9:single"}


def test_d9_asks_the_same_in_single_precision() -> None:
    question = "does credit that is declared local depend on the weights above"
    assert diagnostics["D9"].question == f"{question}?"
    assert diagnostics["D9:single"].question == f"{question}, on a model that cannot run in float64?"


def test_the_note_of_d8_counts_the_labellings() -> None:
    for trials, words in ((1, "1 other labelling of"), (2, "2 other labellings of")):
        assert words in find("D8", evidence(leak=replace(LabelLeak(0.0, 0, 1000), trials=trials))).note


def test_gamma_at_the_edge_of_one_is_not_yet_suspect() -> None:
    for gamma, cause in ((ALMOST_ONE, ""), (math.nextafter(ALMOST_ONE, 1), "gradient")):
        given = credit((gamma, 0.5, 1.0), local=True, backprop=HiddenBackprop((0.0, 0.0), 8, "float64"))
        assert (find("D9", given).cause == "") == (cause == "")


def test_credit_of_another_network_has_no_number_to_judge() -> None:
    probe = replace(HiddenBackprop((0.0, 0.0), 8, "float64"), reads_network=False)
    found = find("D9", credit((0.5, 0.5, 1.0), local=True, backprop=probe))
    assert (found.status, found.value) == (Status.SKIPPED, 0.0)


def test_the_advice_names_every_case() -> None:
    d2, d3 = diagnostics["D2"].advice, diagnostics["D3"].advice
    for cause, text in diagnostics["D2"].do_by_cause.items():
        assert f"Cause `{cause}`: {text[0].lower()}{text[1:]}" in d2
    assert "While undecided" not in d2
    assert f"While undecided: {diagnostics['D3'].do_when_undecided}" in d3
