"""Judging fails closed, in every combination of findings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditscope.errors import UnknownName
from creditscope.modes import EXPLODES, WITHOUT_GROWTH, Headline, Mode
from creditscope.protocols import PROTOCOLS, judge, protocol_named
from creditscope.verdict import (
    Finding,
    Limit,
    Measurement,
    Reason,
    Status,
    Verdict,
    reference_collapsed,
    untrusted_states,
)

ABOVE = Limit(50.0, "above", "a reason")
BELOW = Limit(2.0, "below", "a reason", unit="points")
STATUSES = [*Status, None]  # None: the finding is not even there


def finding(code: str, status: Status, cause: str = "", note: str = "", *, warns: bool = False) -> Finding:
    measured = None if status is Status.SKIPPED else Measurement(1.0, cause=cause, note=note)
    return Finding(code, f"Title of {code}", status, measured, ABOVE, note, "", means="It means.", warns=warns)


def findings(given: Mapping[str, Status | None], cause: str = "collapsed") -> dict[str, Finding]:
    return {
        code: finding(code, status, cause if code == "D2" else "")
        for code, status in given.items()
        if status is not None
    }


@pytest.mark.parametrize(
    ("limit", "value", "status"),
    [
        (ABOVE, math.nextafter(50.0, 0), Status.PASS),
        (ABOVE, 50.0, Status.PASS),
        (ABOVE, math.nextafter(50.0, 99), Status.FIRES),
        (BELOW, math.nextafter(2.0, 9), Status.PASS),
        (BELOW, 2.0, Status.PASS),
        (BELOW, math.nextafter(2.0, 0), Status.FIRES),
    ],
)
def test_a_limit_fires_strictly_past_itself(limit: Limit, value: float, status: Status) -> None:
    assert limit.judge(Measurement(value)) is status


@pytest.mark.parametrize("limit", [ABOVE, BELOW])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_a_number_is_undefined_and_never_passes(limit: Limit, value: float) -> None:
    assert limit.judge(Measurement(value)) is Status.UNDEFINED
    assert limit.judge(Measurement(1.0, interval=(0.5, value))) is Status.UNDEFINED
    assert limit.judge(Measurement(value, interval=(0.0, 100.0))) is Status.UNDEFINED


@pytest.mark.parametrize(
    ("at", "figures"),
    [(50.0, "50"), (1 / 3, "1/3"), (5 / 9, "5/9"), (0.1, "0.1"), (1e-7, "1e-07"), (0.123456789, "0.123457"),
     (math.inf, "inf"), (12345678.1, "1.23457e+07")],
)  # fmt: skip
def test_a_limit_is_shown_in_short_decimals_or_as_a_small_fraction(at: float, figures: str) -> None:
    assert Limit(at, "above", "").text == figures


def firing(code: str, status: Status, per_layer: tuple[float, ...] = (), cause: str = "") -> Finding:
    limit = Limit(5e-6, "below", "")
    return Finding(code, "", status, Measurement(0.0, per_layer, cause=cause), limit, "", "")


def test_no_cosine_is_trusted_where_a_state_is_dead_or_anywhere_if_precision_fails() -> None:
    dead, tails = {"D11": firing("D11", Status.FIRES, (1e-9, 1.0, 1e-9))}, (0.5, 1.0, 1.0, 1.0)
    assert untrusted_states({}) == frozenset()
    assert untrusted_states(dead) == {0, 2}
    assert untrusted_states({"D11": firing("D11", Status.PASS, (1e-9, 1.0))}) == frozenset()
    assert untrusted_states({**dead, "D7": firing("D7", Status.PASS, tails)}) == {0, 2}
    assert untrusted_states({**dead, "D7": firing("D7", Status.FIRES, tails)}) == {0, 1, 2, 3}
    assert untrusted_states({"D7": firing("D7", Status.FIRES, tails)}) == {0, 1, 2, 3}


def test_a_finding_warns_only_where_its_diagnostic_says_so() -> None:
    assert not firing("D1", Status.FIRES).warns


def test_the_reference_has_collapsed_only_where_d2_fires_for_that_cause() -> None:
    assert not reference_collapsed({})
    assert reference_collapsed({"D2": firing("D2", Status.FIRES, cause="collapsed")})
    assert not reference_collapsed({"D2": firing("D2", Status.FIRES, cause="fitted")})
    assert not reference_collapsed({"D2": firing("D2", Status.PASS, cause="collapsed")})


@pytest.mark.parametrize(("outcome", "code"), [("pass", 0), ("control", 0), ("fail", 1), ("inconclusive", 3)])
def test_every_outcome_has_its_exit_code(outcome: Any, code: int) -> None:
    assert Verdict("", outcome, (), (), (), "").exit_code == code


@pytest.mark.parametrize("fires", ["above", "below"])
def test_nothing_passes_a_limit_that_is_no_number(fires: Any) -> None:
    assert Limit(math.nan, fires, "").judge(Measurement(1.0)) is Status.UNDEFINED
    assert Limit(math.inf, fires, "").judge(Measurement(1.0)) is not Status.UNDEFINED  # nothing is past it, or all


@pytest.mark.parametrize(
    ("interval", "below", "above"),
    [((2.1, 9.0), "pass", "fires"), ((-1.0, 1.9), "fires", "pass"), ((1.9, 2.1), "undecided", "undecided")],
)
def test_an_interval_decides_only_as_a_whole(interval: tuple[float, float], below: str, above: str) -> None:
    assert BELOW.judge(Measurement(2.05, interval=interval)) == below
    assert Limit(2.0, "above", "").judge(Measurement(2.05, interval=interval)) == above


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e6, 1e6),
    st.sampled_from(["above", "below"]),
    st.sampled_from(["decades", "points"]),
)
def test_the_margin_is_negative_exactly_where_the_limit_is_past(at: float, value: float, fires: str, unit: str) -> None:
    limit = Limit(at, fires, "", unit=unit)  # type: ignore[arg-type]
    assert (limit.margin(value) < 0) <= limit.past(value)
    if limit.past(value) and not math.isclose(at, value, rel_tol=1e-12):
        assert limit.margin(value) < 0


@pytest.mark.parametrize(
    ("limit", "value", "margin"),
    [
        (ABOVE, 5.0, 1.0),
        (ABOVE, 50e3, -3.0),
        (ABOVE, 0.0, math.inf),
        (Limit(1e-7, "below", ""), 1e-4, 3.0),
        (Limit(1e-7, "below", ""), 0.0, -math.inf),
        (Limit(0.0, "below", ""), 1e-4, math.inf),
        (Limit(0.0, "above", ""), 1e-4, -math.inf),
        (BELOW, 5.0, 3.0),
        (BELOW, -1.0, -3.0),
        (Limit(0.3, "above", "", unit="absolute"), 0.1, 0.2),
    ],
)
def test_the_margin_counts_decades_points_or_units(limit: Limit, value: float, margin: float) -> None:
    assert limit.margin(value) == pytest.approx(margin)


def test_a_finding_shows_its_measurement_or_says_that_there_is_none() -> None:
    measured = Finding("D1", "", Status.PASS, Measurement(5.0, (1.0, 5.0), (4.0, 6.0), "cause"), ABOVE, "", "")
    assert (measured.value, measured.per_layer, measured.interval, measured.cause) == (
        5.0,
        (1.0, 5.0),
        (4.0, 6.0),
        "cause",
    )
    assert measured.margin == pytest.approx(1.0)
    seeds = Measurement(5.0, per_seed=(4.0, 6.0))
    assert Finding("D1", "", Status.PASS, seeds, ABOVE, "", "").per_seed == (4.0, 6.0)
    skipped = finding("D1", Status.SKIPPED)
    assert skipped.per_seed == ()
    assert (skipped.value, skipped.per_layer, skipped.interval, skipped.cause, skipped.margin) == (
        None,
        (),
        None,
        "",
        None,
    )
    undefined = Finding("D1", "", Status.UNDEFINED, Measurement(math.nan), ABOVE, "", "")
    assert undefined.margin is None


def three_by_hand(d0: Status | None, d1: Status | None, d2: Status | None, d3: Status | None, cause: str) -> str:
    """Section 3 of the protocol, read aloud."""
    if d2 is Status.FIRES and cause == "fitted":
        d2 = Status.PASS  # only a collapsed reference counts in mode 1
    modes = {"D0": {d0}, "D1+D2": {d1, d2}, "D3": {d3}}
    shown = [codes for codes, answers in modes.items() if answers == {Status.FIRES}]
    still_open = [codes for codes, answers in modes.items() if answers != {Status.FIRES} and Status.PASS not in answers]
    if shown:
        return f"FAIL({'+'.join(shown)})"
    return f"INCONCLUSIVE({'+'.join(still_open)})" if still_open else "PASS"


@pytest.mark.parametrize("cause", ["collapsed", "fitted"])
def test_profile_three_in_every_combination(cause: str) -> None:
    outcomes = {"PASS": ("pass", 0), "FAIL": ("fail", 1), "INCONCLUSIVE": ("inconclusive", 3)}
    for statuses in itertools.product(STATUSES, repeat=4):
        given_findings = findings(dict(zip(("D0", "D1", "D2", "D3"), statuses, strict=True)), cause)
        for drift in (Status.PASS, Status.FIRES, Status.SKIPPED):  # advisory: D4 changes nothing
            verdict = judge(protocol_named("three"), {**given_findings, "D4": finding("D4", drift)})
            assert str(verdict) == three_by_hand(*statuses, cause)
            assert (verdict.outcome, verdict.exit_code) == outcomes[str(verdict).partition("(")[0]]
            assert len(verdict.shown) + len(verdict.ruled_out) + len(verdict.open) == 3
            assert verdict.why


@pytest.mark.parametrize("name", ["four", "april"])
@pytest.mark.parametrize("cause", ["collapsed", "fitted"])
def test_profiles_of_flags_in_every_combination(name: str, cause: str) -> None:
    flags = {"D1": "(a) scale", "D2": "(b) reference", "D4": "(c) drift", "D3": "(d) depth", "D0": "non-finite"}
    for statuses in itertools.product(STATUSES, repeat=5):
        answers = dict(zip(flags, statuses, strict=True))
        verdict = judge(protocol_named(name), findings(answers, cause))
        raised = [flag for code, flag in flags.items() if answers[code] is Status.FIRES]
        unknown = [
            f"{flag.split()[0]} {'not measured' if answers[code] in (None, Status.SKIPPED) else answers[code]}"
            for code, flag in flags.items()
            if answers[code] not in (Status.PASS, Status.FIRES)
        ]
        if raised:
            assert (str(verdict), verdict.exit_code) == ("needs walk-back: " + "; ".join(raised), 1)
        elif unknown:
            assert (str(verdict), verdict.exit_code) == ("incomplete: " + "; ".join(unknown), 3)
        else:
            assert (str(verdict), verdict.exit_code) == ("trustworthy", 0)


def test_without_a_baseline_nothing_passes() -> None:
    healthy = {"D0": Status.PASS, "D1": Status.PASS, "D2": Status.PASS, "D4": Status.PASS, "D3": Status.SKIPPED}
    assert str(judge(protocol_named("three"), findings(healthy))) == "INCONCLUSIVE(D3)"
    assert str(judge(protocol_named("four"), findings(healthy))) == "incomplete: (d) not measured"


def test_no_findings_at_all_pass_in_no_profile() -> None:
    assert all(judge(protocol, {}).outcome == "inconclusive" for protocol in PROTOCOLS.values())


def test_an_undecided_depth_is_named_in_the_words_of_each_profile() -> None:
    undecided = {"D0": Status.PASS, "D1": Status.PASS, "D2": Status.PASS, "D4": Status.PASS, "D3": Status.UNDECIDED}
    assert str(judge(protocol_named("three"), findings(undecided))) == "INCONCLUSIVE(D3)"
    assert str(judge(protocol_named("april"), findings(undecided))) == "incomplete: (d) undecided"


def test_the_reasons_name_what_is_shown_or_what_is_missing() -> None:
    all_fire = findings(dict.fromkeys(("D0", "D1", "D2", "D3"), Status.FIRES))
    verdict = judge(protocol_named("three"), all_fire)
    assert str(verdict) == "FAIL(D0+D1+D2+D3)"
    assert "collapsed" in verdict.why
    assert "frozen random" in verdict.why
    given_findings = {
        **findings({"D0": Status.PASS, "D1": Status.PASS}),
        "D3": finding("D3", Status.SKIPPED, note="no control."),
    }
    assert judge(protocol_named("three"), given_findings).why == "D3 was not judged: no control."
    assert (
        judge(protocol_named("three"), {"D0": finding("D0", Status.PASS), "D1": finding("D1", Status.PASS)}).why
        == "D3 was not measured."
    )
    passed = judge(protocol_named("three"), findings(dict.fromkeys(("D0", "D1", "D2", "D3"), Status.PASS)))
    assert passed.why == "None of the failures that this protocol looks for was found."


def test_a_warning_stands_beside_the_verdict_only_when_it_fires() -> None:
    passed = findings(dict.fromkeys(("D0", "D1", "D2", "D3"), Status.PASS))
    leaking = {**passed, "D8": finding("D8", Status.FIRES, note="labels leak", warns=True)}
    assert judge(protocol_named("three"), leaking).warnings == ("D8 Title of D8: labels leak",)
    assert str(judge(protocol_named("three"), leaking)) == "PASS"
    assert judge(protocol_named("three"), {**passed, "D8": finding("D8", Status.PASS, warns=True)}).warnings == ()
    assert judge(protocol_named("three"), {**passed, "D5": finding("D5", Status.FIRES)}).warnings == ()
    silent = {**passed, "D8": finding("D8", Status.FIRES, warns=True)}
    assert judge(protocol_named("three"), silent).warnings == ("D8 Title of D8: It means.",)


def test_profiles_are_data_that_name_their_diagnostics() -> None:
    assert protocol_named("three").codes == ("D0", "D1", "D2", "D3")
    assert protocol_named("four").codes == protocol_named("april").codes == ("D0", "D1", "D2", "D3", "D4")
    assert protocol_named("april").variants == {"D1": "april", "D3": "published"}
    assert protocol_named("four").variants == protocol_named("three").variants == {"D3": "published"}
    strict = protocol_named("strict")
    assert strict.codes == ("D0", "D1", "D1:stream", "D2:tail", "D3", "D11")
    assert (strict.variants, strict.unjudged) == ({}, {"D4"})


def test_a_mode_asks_for_its_cause_only_where_it_names_one() -> None:
    fitted = {"D2": finding("D2", Status.FIRES, "fitted")}
    silent = Headline("", "", "", {})
    assert Mode("", "", {"D2": "collapsed"}, headline=silent).state(fitted) == "ruled out"
    assert Mode("", "", {"D2": ""}, headline=silent).state(fitted) == "shown"


def test_an_unknown_protocol_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        protocol_named("fuor")
    assert (
        str(caught.value)
        == "There is no protocol called 'fuor'. Did you mean 'four'?\nKnown: april, four, strict, three."
    )
    with pytest.raises(UnknownName, match="no protocol called None"):
        protocol_named(None)  # type: ignore[arg-type]


def test_a_reference_of_unknown_cause_rules_nothing_out() -> None:
    given = findings({"D0": Status.PASS, "D1": Status.FIRES, "D2": Status.FIRES, "D3": Status.PASS}, cause="")
    assert str(judge(protocol_named("three"), given)) == "INCONCLUSIVE(D1+D2)"


def test_a_limit_of_the_user_remembers_the_calibrated_one() -> None:
    limit = Limit(50.0, "above", "measured")
    moved = limit.moved(7.0).moved(8.0)
    assert (moved.at, moved.calibrated, moved.because) == (8.0, 50.0, "measured")
    assert moved.origin == "set by the user; the calibrated limit is 50"
    assert moved.moved(50.0) == limit
    assert limit.origin == "measured"


# --- strict ---


def strict(**given: tuple[Status, Reason | None] | Status) -> str:
    """The verdict of protocol strict on these findings; every other one passes."""
    codes = ("D0", "D1", "D1:stream", "D2", "D2:tail", "D3", "D10", "D11", "D12")
    found = {}
    for code in codes:
        answer = given.get(code.replace(":", "_"), Status.PASS)
        status, reason = answer if isinstance(answer, tuple) else (answer, None)
        found[code] = replace(finding(code, status), reason=reason)
    return str(judge(protocol_named("strict"), found))


def test_strict_passes_only_where_every_mode_is_ruled_out() -> None:
    assert strict() == "PASS"
    for code in ("D0", "D3", "D11"):
        assert strict(**{code: Status.FIRES}) == f"FAIL({code})"
        assert strict(**{code: Status.UNDEFINED}) == f"INCONCLUSIVE({code})"


def test_growth_fails_strict_only_together_with_the_tail_of_the_reference() -> None:
    assert strict(D1=Status.FIRES, D1_stream=Status.FIRES) == "PASS"
    assert strict(D2_tail=Status.FIRES) == "PASS"
    assert strict(D1=Status.FIRES, D2_tail=Status.FIRES) == "FAIL(D1+D2:tail)"
    assert strict(D1_stream=Status.FIRES, D2_tail=Status.FIRES) == "FAIL(D1:stream+D2:tail)"


def test_a_reference_that_collapsed_where_the_stream_has_not_grown_is_no_explosion() -> None:
    small = finding("D2:tail", Status.FIRES)
    assert small.measurement is not None
    apart = replace(small, measurement=replace(small.measurement, cause=WITHOUT_GROWTH))
    passing = {code: finding(code, Status.PASS) for code in ("D0", "D1", "D1:stream", "D2:tail", "D3", "D11")}
    grown = {**passing, **{code: finding(code, Status.FIRES) for code in ("D1", "D1:stream")}}
    assert str(judge(protocol_named("strict"), {**grown, "D2:tail": small})) == "FAIL(D1+D1:stream+D2:tail)"
    assert str(judge(protocol_named("strict"), {**grown, "D2:tail": apart})) == "PASS"


def test_growth_that_leaves_the_reference_alone_passes_with_a_warning() -> None:
    """In tokens that nobody reads, or by less than the clamp notices; a shown mode says it by itself."""
    passing = {code: finding(code, Status.PASS) for code in ("D0", "D1", "D1:stream", "D2:tail", "D3", "D11")}
    grown = {**passing, "D1:stream": finding("D1:stream", Status.FIRES)}
    verdict = judge(protocol_named("strict"), grown)
    assert (str(verdict), len(verdict.warnings)) == ("PASS", 1)
    assert verdict.warnings[0].endswith(EXPLODES)
    failed = judge(protocol_named("strict"), {**grown, "D2:tail": finding("D2:tail", Status.FIRES)})
    assert (str(failed), failed.warnings) == ("FAIL(D1:stream+D2:tail)", ())


def test_d10_stands_in_for_a_control_that_was_not_given() -> None:
    absent = (Status.SKIPPED, Reason.NO_CONTROL)
    assert strict(D3=absent) == "PASS"
    assert strict(D3=absent, D10=Status.FIRES) == "FAIL(D10)"
    assert strict(D3=absent, D10=Status.UNDECIDED) == "INCONCLUSIVE(D10)"
    assert strict(D3=absent, D10=(Status.SKIPPED, Reason.NOT_GIVEN)) == "INCONCLUSIVE(D3)"
    assert strict(D3=Status.UNDECIDED, D10=Status.FIRES) == "INCONCLUSIVE(D3)"


def test_where_both_depth_judgements_disagree_the_verdict_is_d3s_and_says_so() -> None:
    found = {code: finding(code, Status.PASS) for code in ("D0", "D1", "D1:stream", "D2:tail", "D3", "D11", "D12")}
    verdict = judge(protocol_named("strict"), {**found, "D10": finding("D10", Status.FIRES)})
    assert str(verdict) == "PASS"
    assert verdict.warnings == (
        "D3 and D10 disagree: the verdict follows D3, which retrained the network with frozen blocks.",
    )


def test_dead_blocks_are_a_warning_and_no_failure() -> None:
    assert strict(D12=Status.FIRES) == strict(D12=(Status.SKIPPED, Reason.NOT_APPLICABLE)) == "PASS"
    verdict = judge(protocol_named("strict"), {"D12": finding("D12", Status.FIRES)})
    assert [warning.partition(" ")[0] for warning in verdict.warnings] == ["D12"]
