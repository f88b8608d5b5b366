"""D9 fires when credit moves with weights that no activation can see."""

from __future__ import annotations

import math

import pytest
from tests.diagnostics.credit_by_hand import credit
from tests.diagnostics.evidence_by_hand import evidence, find

from creditscope.evidence.credit import HiddenBackprop
from creditscope.protocols import judge, protocol_named
from creditscope.verdict import Missing, Reason


@pytest.mark.parametrize(
    ("name", "ratio", "status"),
    [
        ("D9", 0.99e-3, "pass"),
        ("D9", 1.01e-3, "fires"),
        ("D9:single", 0.099, "pass"),
        ("D9:single", 0.101, "fires"),
    ],
)
def test_d9_fires_exactly_past_its_limit_in_either_precision(name, ratio, status):
    found = find(name, credit((0.1, 0.1, 0.1), backprop=HiddenBackprop((1e-15, ratio), images=64)))
    assert (found.code, found.value, found.status) == ("D9", ratio, status)
    change = f"credit changes with the weights above by {ratio:.2g} of the gradient's change"
    assert found.note == f"{change}, most at layer 1; 64 images, in float64"


def test_it_warns_but_fails_no_network():
    caught = find("D9", credit((0.1, 0.1), backprop=HiddenBackprop((0.9,))))
    verdict = judge(protocol_named("three"), {"D9": caught})
    assert verdict.shown == ()
    assert verdict.warnings[0].startswith("D9 Hidden backprop: credit changes with the weights above by 0.9 of")


def test_layers_whose_gradient_hardly_moved_are_named_and_not_judged():
    found = find("D9", credit((0.1, 0.1, 0.1), backprop=HiddenBackprop((math.nan, 1e-9))))
    assert found.status == "pass"
    assert "layer 0 not judged" in found.note
    assert math.isnan(found.per_layer[0])


def test_a_rule_that_declares_to_use_the_weights_above_is_measured_and_not_judged():
    found = find("D9", credit((0.1, 0.1), local=False, backprop=HiddenBackprop((1.0,))))
    assert (found.status, found.value) == ("skipped", 1.0)
    assert "measured, not judged" in found.note


def test_credit_that_probes_the_weights_above_forward_is_measured_and_not_judged():
    found = find("D9", credit((0.1, 0.1), local="forward", backprop=HiddenBackprop((1.0,))))
    assert (found.status, found.value, found.reason) == ("skipped", 1.0, "not applicable")
    assert "by forward passes: measured, not judged" in found.note


def warnings(found):
    return judge(protocol_named("strict"), {"D9": found}).warnings


@pytest.mark.parametrize("local", [True, False, "forward"])
def test_credit_that_does_not_read_this_network_is_warned_about(local):
    probe = HiddenBackprop((0.0,), reads_network=False)
    found = find("D9", credit((0.1, 0.1), local=local, backprop=probe))
    assert (found.status, found.reason, found.cause) == ("skipped", "not possible", "other network")
    (warning,) = warnings(found)
    assert warning.startswith("D9 Hidden backprop: the credit does not change with the weights of this network")
    copied = find("D9", credit((1.0, 1.0), local=local, backprop=probe))
    assert "Γ is above 0.999 at layer 0" in warnings(copied)[0]


@pytest.mark.parametrize(("gamma", "cause"), [(0.9989, ""), (0.9991, "gradient")])
def test_local_credit_that_equals_the_gradient_is_warned_about_beside_a_pass(gamma, cause):
    found = find("D9", credit((0.1, gamma, 1.0), backprop=HiddenBackprop((1e-9, 1e-9))))
    assert (found.status, found.cause, len(warnings(found))) == ("pass", cause, bool(cause))
    assert ("Γ is above 0.999 at layer 1, as if the credit were the gradient" in found.note) is bool(cause)


def test_it_is_warned_about_also_where_nothing_could_be_measured():
    twice = Missing(Reason.NOT_POSSIBLE, "called twice")
    found = find("D9", credit((1.0, 1.0), backprop=twice))
    assert (found.status, found.cause) == ("skipped", "gradient")
    assert warnings(found)[0].startswith("D9 Hidden backprop: called twice; Γ is above 0.999 at layer 0")


def test_layers_that_are_exact_the_last_one_and_credit_that_is_not_local_are_not_suspected():
    probe = HiddenBackprop((1e-9,))
    assert warnings(find("D9", credit((0.1, 1.0), backprop=probe))) == ()
    assert warnings(find("D9", credit((1.0, 1.0), exact_layers=frozenset({0}), backprop=probe))) == ()
    assert warnings(find("D9", credit((1.0, 1.0), local=False, backprop=probe))) == ()


@pytest.mark.parametrize(
    ("given_evidence", "why"),
    [
        (evidence(), "no credit was given"),
        (credit((0.1, 0.1)), "the weights were not perturbed"),
        (credit((0.1, 0.1), backprop=Missing(Reason.NOT_POSSIBLE, "called twice")), "called twice"),
        (credit((0.1, 0.1), backprop=HiddenBackprop((math.nan,))), "no gradient changed"),
    ],
)
def test_d9_is_skipped_where_nothing_can_be_told(given_evidence, why):
    found = find("D9", given_evidence)
    assert (found.status, found.measurement) == ("skipped", None)
    assert why in found.note
