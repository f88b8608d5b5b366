"""Every published claim holds, fails or stays open as the records say, whatever ours say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from statistics import fmean, stdev

import pytest
from tests.creditscope_papers.hao2026.made import archive
from tests.papers.made import ALIGNED, EXPLODED, HEALTHY, MadeStore, epoch, run

from creditscope.papers.claims import Claim
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.verdict import Measurement
from creditscope_papers.hao2026 import claims, findings

VALID, COLLAPSED = 1e-3, 1e-9


def answer(claim: Claim, make, *studies: str) -> str:
    return claim.ask(archive(make, *studies)).status.value


def only(seeds: tuple[int, ...], make):
    """The same records, of these seeds alone."""
    return lambda spec: make(spec) if spec.seed in seeds else None


# --- BP ---


def bp(values=HEALTHY, accuracy=0.6, frozen=0.35, **fields):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method != "bp":
            return None
        return run(spec, accuracy, values, **fields) if spec.control == "none" else run(spec, frozen)

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (bp(), "holds"),
        (only((42, 123), bp()), "undecided"),
        (bp(frozen=0.6), "fails"),  # D3 fires
        (bp(EXPLODED), "fails"),
        (bp({**HEALTHY, "D4": 0.9}), "fails"),  # advisory, but it fires
        (bp(history=[epoch(1, d1=60.0), epoch(2)]), "fails"),  # on the way
        (only((42,), bp(history=[epoch(1, d2=COLLAPSED), epoch(2)])), "fails"),
        (bp(frozen=0.58), "undecided"),  # D3 is
        (bp(history=[epoch(1, d2=math.nan), epoch(2)]), "undecided"),
        (bp(diverged=True), "undecided"),
        (bp(values=None), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_bp_passes_and_never_fires(make, status):
    assert answer(claims.bp_is_silent, make, "main_audit") == status


def test_what_fired_on_bp_is_named():
    because = claims.bp_is_silent.ask(
        archive(bp(history=[epoch(1), epoch(2, d1=60.0), epoch(3)]), "main_audit")
    ).because
    assert "seed 42, 3 epochs: PASS, D1 fired after epoch 2" in because


def with_long(make, long, study: str):
    """The records of the default budget by `make`, beside those of the published length by `long`."""
    usual, longer = archive(make, study), archive(long, study, budget="paper")
    return replace(usual, store=MadeStore(usual.store.made | longer.store.made))


def test_runs_of_the_published_length_count_where_there_are_any():
    exploding = bp(history=[epoch(1), epoch(2, d1=60.0), epoch(3)])
    assert claims.bp_is_silent.ask(with_long(bp(), bp(), "main_audit")).status == "holds"
    assert claims.bp_is_silent.ask(with_long(bp(), only((42,), bp()), "main_audit")).status == "holds"
    assert claims.bp_is_silent.ask(with_long(bp(), only((42,), exploding), "main_audit")).status == "fails"
    assert claims.bp_is_silent.ask(with_long(only((42,), bp()), bp(), "main_audit")).status == "undecided"
    as_published = claims.bp_is_silent.ask(archive(bp(), "main_audit", budget="paper"))
    assert (as_published.status, as_published.because.count("PASS")) == ("holds", 3)  # each run once


# --- DFA against its frozen control ---


def dfa(values=EXPLODED, accuracy=0.30, frozen: float | None = 0.35, index=("input", "output"), **fields):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method != "dfa" or spec.method_options.get("index", "output") not in index:
            return None
        if spec.control == "none":
            return run(spec, accuracy, values, **fields)
        return run(spec, frozen) if spec.control == "frozen" and frozen is not None else None

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (dfa(), "holds"),
        (only((42, 456), dfa()), "undecided"),
        (dfa(HEALTHY), "fails"),
        (dfa(frozen=0.2), "fails"),  # D3 passes
        (dfa(cause="fitted"), "fails"),  # D2 fires, but nothing collapsed
        (dfa({**EXPLODED, "D1": 2.0}, frozen=None), "fails"),  # whatever D3 will say
        (dfa(frozen=None), "undecided"),
        (dfa(accuracy=0.365), "undecided"),  # D3 is
        (dfa({**EXPLODED, "D2": math.nan}), "undecided"),
        (dfa(index=("input",)), "undecided"),  # both indices are wanted
        (dfa(HEALTHY, index=("input",)), "fails"),
    ],
)
def test_dfa_fails_with_d1_d2_and_d3(make, status):
    assert answer(claims.dfa_fails, make, "main_audit") == status


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (dfa(accuracy=0.30), "holds"),
        (dfa(HEALTHY, accuracy=0.30), "holds"),  # the accuracies alone decide
        (only((42, 123), dfa()), "undecided"),
        (dfa(accuracy=0.345), "undecided"),  # half a point on 10,000 images
        (only((42, 123), dfa(accuracy=0.355)), "undecided"),
        (dfa(accuracy=0.355), "fails"),  # three seeds alike: over them it lies above
        (dfa(frozen=None), "undecided"),
        (dfa(accuracy=0.40), "fails"),
        (only((42,), dfa(accuracy=0.40)), "fails"),
    ],
)
def test_dfa_lies_below_its_frozen_control(make, status):
    assert answer(claims.dfa_below_frozen, make, "main_audit") == status


def test_below_the_control_is_answered_with_the_keys_of_both_runs():
    found = claims.dfa_below_frozen.ask(archive(dfa(), "main_audit"))
    assert len(found.keys) == 12
    assert "index = input, seed 42: -5.0 points (-6.3 to -3.7, test images only)" in found.because


def test_below_the_control_is_said_over_seeds_too_which_spread_more_than_the_images():
    def spread(spec: RunSpec) -> RunRecord | None:
        return dfa(accuracy={42: 0.33, 123: 0.25, 456: 0.32}[spec.seed])(spec)

    found = claims.dfa_below_frozen.ask(archive(spread, "main_audit"))
    assert found.status == "undecided"  # every seed is below 0, all together are not
    (whole,) = {part for part in found.because.split("; ") if part.startswith("index = input:")}
    assert whole.startswith("index = input: -5.0 points (-15")
    assert whole.endswith(", over 3 seeds)")


# --- standard reporting ---


def reported(accuracy=0.3, gamma: Callable[[RunSpec], float | None] = lambda spec: 0.1, absent=()):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method in absent:
            return None
        value = gamma(spec)
        return run(spec, accuracy, EXPLODED, {} if value is None else {"gamma_clamped_mean": Measurement(value)})

    return make


ONE_SEED = reported(gamma=lambda spec: -0.1 if (spec.method, spec.seed) == ("dfa", 42) else 0.1)


@pytest.mark.parametrize(
    ("make", "methods", "seeds"),
    [
        (reported(), "holds", "holds"),  # although every stream exploded
        (reported(gamma=lambda spec: -0.1 if spec.method == "dfa" else 0.1), "fails", "fails"),
        (reported(accuracy=0.1), "fails", "fails"),
        (ONE_SEED, "holds", "fails"),  # a method is not rejected by one of its seeds
        (reported(gamma=lambda spec: -0.1 if spec.method == "fa" else 0.1), "holds", "fails"),  # none of the five
        (reported(gamma=lambda spec: None if spec.method == "ep" else 0.1), "undecided", "undecided"),
        (reported(absent=("ep",)), "undecided", "undecided"),
        (only((42,), reported()), "undecided", "undecided"),
        (only((42,), reported(accuracy=0.1)), "undecided", "fails"),
        (only((42,), ONE_SEED), "undecided", "fails"),
        (lambda spec: None, "undecided", "undecided"),
    ],
)
def test_standard_reporting_is_counted_in_methods_and_by_a_finding_of_ours_in_seeds(make, methods, seeds):
    assert answer(claims.standard_reporting_is_blind, make, "decision_utility") == methods
    assert answer(findings.no_seed_is_rejected, make, "decision_utility") == seeds


def test_a_method_that_is_rejected_on_a_seed_stands_with_its_accuracy_and_the_published_one():
    def make(spec: RunSpec) -> RunRecord:
        at_chance = spec.method == "credit_bridge" and spec.seed != 123
        return run(spec, 0.1 if at_chance else 0.3)

    because = claims.standard_reporting_is_blind.ask(archive(make, "decision_utility")).because
    assert (
        "credit_bridge rejected on 2 of 3 seeds (its accuracy over the seeds: 16.7 %, published: 28.9 % ± 3.1)"
        in because
    )
    assert "ep rejected on 0 of 3 seeds;" in because


# --- the penalty ---


def penalised(plain=EXPLODED, values=HEALTHY, accuracy=0.36, frozen: float | None = 0.35, step=0.001):
    """Seeds 42, 123 and 456 lie one step apart."""

    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method != "dfa":
            return None
        if spec.control == "frozen":
            return None if frozen is None else run(spec, frozen)
        return run(spec, 0.3, plain) if not spec.penalty else run(spec, accuracy + step * (spec.seed % 5), values)

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (penalised(), "holds"),
        (penalised(accuracy=0.30), "holds"),
        (penalised(accuracy=0.35, step=0.01), "holds"),  # undecided does not count as a pass
        (penalised(accuracy=0.50), "fails"),  # D3 passes
        (penalised(values=EXPLODED), "fails"),
        (penalised(values={**HEALTHY, "D2": COLLAPSED}), "fails"),
        (penalised(plain=HEALTHY), "fails"),  # there was nothing to remove
        (only((42,), penalised(values=EXPLODED)), "fails"),
        (only((42, 123), penalised()), "undecided"),
        (only((42,), penalised(accuracy=0.50)), "undecided"),  # over seeds nothing is known yet
        (penalised(frozen=None), "undecided"),
        (penalised(values=None), "undecided"),
        (penalised(values={**HEALTHY, "D1": math.nan}), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_the_penalty_removes_d1_and_d2_and_d3_does_not_pass(make, status):
    assert answer(claims.penalty_removes_the_explosion_only, make, "penalty") == status


def test_a_diagnostic_that_was_not_measured_is_not_shown_to_pass():
    made = archive(penalised(values=None), "penalty")
    because = claims.penalty_removes_the_explosion_only.ask(made).because
    assert "λ = 0.01: D1 and D2 cannot be shown to pass on all of 3 seeds" in because


def test_without_the_plain_runs_nothing_is_removed():
    def make(spec: RunSpec) -> RunRecord | None:
        return penalised()(spec) if spec.penalty or spec.control == "frozen" else None

    assert answer(claims.penalty_removes_the_explosion_only, make, "penalty") == "undecided"


# --- alignment in the first epochs ---

SHORT = 2  # epochs of the runs that are audited early
LAYER_0, EVEN = (0.42, 0.006, -0.015, -0.004, -0.004), (0.42, 0.47, 0.03, -0.01, -0.03)


def early(index: str, *rows):
    def make(spec: RunSpec) -> RunRecord | None:
        own = spec.method_options.get("index", "output") == index
        return run(spec, history=rows) if own and spec.method == "dfa" else None

    return make


def audited(index: str, value: float, gammas=LAYER_0):
    """Short runs whose D5 has this value."""

    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method_options.get("index", "output") != index or spec.epochs > SHORT:
            return None
        return run(spec, values={**HEALTHY, "D5": value}, measures={"gamma": Measurement(0.1, per_layer=gammas)})

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (audited("input", -0.05), "holds"),
        (audited("input", 0.332), "holds"),
        (audited("input", 0.334), "fails"),
        (audited("input", -0.05, LAYER_0[::-1]), "fails"),  # one layer, but not layer 0
        (audited("input", math.nan), "undecided"),  # skipped, for example: the reference has collapsed
        (audited("output", -0.05), "undecided"),
        (only((42, 123), audited("input", -0.05)), "undecided"),
        (early("input", epoch(1, gamma=LAYER_0)), "undecided"),  # a history has no null
        (lambda spec: None, "undecided"),
    ],
)
def test_layer_0_carries_the_alignment_with_index_input(make, status):
    assert answer(claims.layer_zero_carries, make, "early_epochs") == status


@pytest.mark.parametrize(
    ("gamma", "status"),
    [
        (EVEN, "holds"),
        ((0.4, 0.5, 0.049, -0.049, 0.049), "holds"),
        ((0.4, 0.5, 0.3, -0.3, 0.0), "fails"),  # opposite signs do not make up for each other
        ((0.4, 0.5, -0.06, -0.06, -0.06), "fails"),
        ((0.4, 0.5, math.nan, 0.0, 0.0), "undecided"),
    ],
)
def test_the_layers_from_2_on_carry_nothing_with_index_output(gamma, status):
    make = early("output", epoch(1, gamma=gamma))
    assert answer(findings.deep_layers_carry_nothing, make, "early_epochs") == status
    alone = "fails" if status == "fails" else "undecided"  # one counterexample is enough
    assert answer(findings.deep_layers_carry_nothing, only((42,), make), "early_epochs") == alone
    collapsed = early("output", epoch(1, gamma=gamma, d2=COLLAPSED))
    assert answer(findings.deep_layers_carry_nothing, collapsed, "early_epochs") == "undecided"


# --- without terminal LayerNorm ---


def temporal(*rows, **fields):
    def make(spec: RunSpec) -> RunRecord | None:
        return run(spec, history=rows, **fields) if spec.network_options.get("terminal_ln") is False else None

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (temporal(epoch(1), epoch(2)), "holds"),
        (temporal(epoch(1, d1=1e6), epoch(2)), "holds"),  # D1 may
        (temporal(epoch(1), epoch(2, d2=COLLAPSED)), "fails"),
        (temporal(epoch(1), epoch(2, d2=math.nan)), "undecided"),
        (temporal(epoch(1), diverged=True), "undecided"),
        (only((42,), temporal(epoch(1))), "undecided"),
        (only((42,), temporal(epoch(1, d2=COLLAPSED))), "fails"),
        (lambda spec: None, "undecided"),
    ],
)
def test_without_terminal_layernorm_d2_never_fires(make, status):
    assert answer(claims.no_collapse_without_layernorm, make, "temporal") == status


def test_a_run_of_the_published_length_without_layernorm_counts_too():
    healthy, collapsed = temporal(epoch(1)), temporal(epoch(1), epoch(2, d2=COLLAPSED))
    claim = claims.no_collapse_without_layernorm
    assert claim.ask(with_long(healthy, only((42,), healthy), "temporal")).status == "holds"
    assert claim.ask(with_long(healthy, only((42,), collapsed), "temporal")).status == "fails"


def test_runs_with_a_terminal_layernorm_are_other_runs():
    def make(spec: RunSpec) -> RunRecord | None:
        bare = spec.network_options.get("terminal_ln") is False
        return run(spec, history=[epoch(1, d2=VALID if bare else COLLAPSED)])

    assert answer(claims.no_collapse_without_layernorm, make, "temporal") == "holds"


# --- fresh feedback ---


def fresh(centre: float, spread: float, z: float = 10.0):
    """A null of this centre and spread, as D6's z implies."""
    measures = {
        **ALIGNED,
        "gamma": Measurement(centre + z * spread),
        "gamma_null": Measurement(centre),
        "gamma_null_std": Measurement(2 * spread, per_layer=(1.0, *(2 * spread,) * 4)),
    }
    return lambda spec: run(spec, values={**HEALTHY, "D6": z}, measures=measures)


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (fresh(0.002, 0.02), "holds"),
        (fresh(0.0093, 0.02), "holds"),  # t(19, 0.975)/√20 = 0.468 spreads
        (fresh(-0.0093, 0.02), "holds"),
        (fresh(0.0094, 0.02), "fails"),
        (fresh(-0.0094, 0.02), "fails"),
        (fresh(0.05, 0.02), "fails"),  # inside the spread of one draw three times over, but not of their mean
        (fresh(math.nan, 0.02), "undecided"),
        (only((42,), fresh(0.002, 0.02)), "undecided"),
        (lambda spec: run(spec, values=None), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_fresh_feedback_aligns_by_chance_only(make, status):
    assert answer(claims.fresh_feedback_is_chance, make, "fresh_feedback") == status


def test_the_bound_is_that_of_a_mean_of_as_many_draws_as_are_made():
    from creditscope.probes.nulls import DRAWS

    assert claims.DRAWS == DRAWS
    because = claims.fresh_feedback_is_chance.ask(archive(fresh(0.002, 0.02), "fresh_feedback")).because
    assert "seed 42: mean +0.0020, t(19, 0.975) · s/√20 = 0.0094" in because


def test_a_mean_of_draws_around_zero_is_refused_once_in_twenty_times():
    """The rule is a test of level 5 %: simulated nulls fail it as often as that."""
    generator = random.Random(1)
    failed = 0
    for _ in range(4000):
        draws = [generator.gauss(0, 1) for _ in range(claims.DRAWS)]
        failed += abs(fmean(draws)) > claims.null_bound(stdev(draws))
    assert 0.04 < failed / 4000 < 0.06


# --- all of them ---


def test_a_claim_of_the_paper_is_not_about_a_dfa_that_it_does_not_have():
    assert findings.deep_layers_carry_nothing in findings.FINDINGS
    assert not any('With index = "output"' in claim.statement for claim in claims.CLAIMS)
    assert not any("our runs" in claim.statement for claim in claims.CLAIMS)


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.experiment + ": " + claim.statement)
def test_without_records_every_claim_is_undecided(claim):
    found = claim.ask(archive())
    assert (found.status, found.keys) == ("undecided", ())
    assert found.because.startswith("no run yet")


WITHOUT_AUDIT = {
    claims.bp_is_silent: "fails",  # no better than its frozen control: D3 fires
    claims.no_collapse_without_layernorm: "holds",  # from the history
}


@pytest.mark.parametrize("claim", claims.CLAIMS, ids=lambda claim: claim.experiment + ": " + claim.statement)
def test_records_without_an_audit_break_no_claim(claim):
    """Accuracies and histories are there, and nothing else: what they settle is settled."""
    found = claim.ask(archive(lambda spec: run(spec, values=None), claim.experiment))
    assert found.status == WITHOUT_AUDIT.get(claim, "undecided")
