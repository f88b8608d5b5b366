"""Weight mirrors and Kolen-Pollack: the constants of the public code in every run, and claims as the records say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from tests.papers import made
from tests.papers.made import epoch, run

from creditscope.papers.archive import RunArchive
from creditscope.papers.tables import comparison_table
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.declaration import Study
from creditscope_papers.akrout2019 import PAPER, claims
from creditscope_papers.akrout2019.claims import EXPERIMENT

Values = Mapping[str, float]
ACCURACIES = {"bp": 0.97, "fa": 0.93, "mirrors": 0.945, "plain": 0.96, "decayed": 0.92}
CREDIT = {"bp": 0.0, "fa": 32.0, "mirrors": 20.0, "plain": 7.0, "decayed": 0.5}  # degrees
WEIGHTS = {"mirrors": 15.0, "plain": 6.0, "decayed": 0.4}  # degrees


def name(spec: RunSpec) -> str:
    """Which row of the paper a run belongs to."""
    if spec.method == "kolen_pollack":
        return "decayed" if spec.weight_decay else "plain"
    return {"bp": "bp", "fa_weights": "fa", "weight_mirror": "mirrors"}[spec.method]


def trained(
    accuracies: Values = ACCURACIES,
    credit: Values = CREDIT,
    weights: Values = WEIGHTS,
    seeds: tuple[int, ...] = (1111, 2222, 3333),
    odd: Values | None = None,
) -> Callable[[RunSpec], RunRecord | None]:
    """Every method with an accuracy and angles of its own; on the last seed the accuracies of `odd` instead."""

    def make(spec: RunSpec) -> RunRecord | None:
        if spec.seed not in seeds:
            return None
        method, last = name(spec), spec.seed == seeds[-1]
        accuracy = {**accuracies, **(odd or {})}[method] if last else accuracies[method]
        angles = {"head.weight": weights[method]} if method in weights else {}
        gamma = (math.cos(math.radians(credit[method])),)
        row = epoch(30, gamma=gamma, angles=angles, hidden_norms=(9.0,), gradient_norms=(0.1,))
        return run(spec, accuracy, history=[row])

    return make


def archive(make: made.Make | None = None) -> RunArchive:
    return made.archive(PAPER, make, EXPERIMENT)


# --- the study --------------------------------------------------------------------------------------------------------


def test_every_run_has_the_constants_of_the_public_code() -> None:
    assert {path.stem for path in PAPER.studies.iterdir()} == set(PAPER.names) == {EXPERIMENT}
    assert Study.read(PAPER.studies / f"{EXPERIMENT}.toml").name == EXPERIMENT
    plan = made.planned(PAPER, EXPERIMENT).values()
    rates = {"bp": 0.2, "fa": 0.2, "mirrors": 0.05, "plain": 0.3, "decayed": 0.3}
    assert {(name(spec), spec.seed) for spec in plan} == {(one, s) for one in rates for s in (1111, 2222, 3333)}
    for spec in plan:
        assert spec.learning_rate == rates[name(spec)]
        assert spec.weight_decay == (1e-3 if name(spec) == "decayed" else 0)
        assert (spec.batch_size, spec.epochs, spec.setting("optimiser"), spec.data) == (128, 30, "sgd", "mnist")
        assert (spec.setting("network.widths"), spec.setting("network.depth")) == ((500,), 0)
        if spec.method != "bp":  # N(0, 1/(500 + 10)), where our scale is over √10
            assert spec.setting("method.scale") == pytest.approx(math.sqrt(10 / 510), abs=5e-4) == 0.14
        if spec.method == "weight_mirror":  # 0.01 times the sum over 128 samples of uniform noise of width 0.1
            assert spec.setting("method.rate") == pytest.approx(0.01 * 128)
            assert spec.setting("method.samples") == 128
            assert spec.setting("method.noise") == pytest.approx(0.1 / math.sqrt(12), abs=5e-5)
        if name(spec) == "plain":
            assert spec.setting("method.without_decay") is True


def test_the_paper_budget_trains_as_long_as_the_public_code() -> None:
    assert {spec.epochs for spec in made.planned(PAPER, EXPERIMENT, "paper").values()} == {400}


def test_the_table_shows_every_run_and_says_not_run_without_any() -> None:
    assert {row.agreement for row in comparison_table(archive(), EXPERIMENT).rows} == {"not run"}
    shown = {key for row in comparison_table(archive(trained()), EXPERIMENT).rows for key in row.keys}
    assert shown == set(made.planned(PAPER, EXPERIMENT))


# --- the claims -------------------------------------------------------------------------------------------------------


def test_every_claim_is_asked_below() -> None:
    assert {one.statement for one, _, _ in CASES} == {one.statement for one in (*PAPER.claims, *PAPER.findings)}


CASES = [
    (claims.mirrors_beat_fa, trained(), "holds"),
    (claims.mirrors_beat_fa, trained({**ACCURACIES, "mirrors": 0.93}), "fails"),  # as accurate as FA, not more
    (claims.mirrors_beat_fa, trained(credit={**CREDIT, "mirrors": 33.0}), "fails"),
    (claims.mirrors_beat_fa, trained(odd={"mirrors": 0.92}), "fails"),  # one seed of three
    (claims.mirrors_beat_fa, trained(seeds=(1111, 2222)), "undecided"),
    (claims.mirrors_beat_fa, None, "undecided"),
    (claims.kolen_pollack_beats_fa, trained(), "holds"),
    (claims.kolen_pollack_beats_fa, trained({**ACCURACIES, "plain": 0.92, "decayed": 0.97}), "fails"),
    (claims.kolen_pollack_beats_fa, trained(credit={**CREDIT, "plain": 40.0}), "fails"),
    (claims.kolen_pollack_beats_fa, trained(seeds=(1111, 2222)), "undecided"),
    (claims.kolen_pollack_beats_fa, None, "undecided"),
    (claims.as_accurate_as_bp, trained(), "holds"),  # a point below, and two are allowed
    (claims.as_accurate_as_bp, trained({**ACCURACIES, "plain": 0.99}), "holds"),
    (claims.as_accurate_as_bp, trained({**ACCURACIES, "plain": 0.949}), "fails"),
    (claims.as_accurate_as_bp, trained(odd={"plain": 0.949}), "fails"),
    (claims.as_accurate_as_bp, trained(seeds=(1111,)), "undecided"),
    (claims.as_accurate_as_bp, None, "undecided"),
    (claims.decay_closes_the_angle, trained(), "holds"),
    (claims.decay_closes_the_angle, trained(weights={**WEIGHTS, "decayed": 1.1}), "fails"),
    (claims.decay_closes_the_angle, trained(weights={**WEIGHTS, "plain": 0.9}), "fails"),  # decay was not needed
    (claims.decay_closes_the_angle, trained(seeds=(1111, 2222)), "undecided"),
    (claims.decay_closes_the_angle, None, "undecided"),
]


@pytest.mark.parametrize(("claim", "make", "status"), CASES)
def test_claims_hold_fail_or_stay_open_as_the_records_say(claim, make, status) -> None:
    assert claim.ask(archive(make)).status == status
