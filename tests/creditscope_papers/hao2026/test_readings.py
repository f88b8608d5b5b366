"""Readings of the open systems: declared as balanced fractions of their grids, ranked by one distance."""

from __future__ import annotations

import math
from itertools import combinations, product

import pytest
from tests.creditscope_papers.hao2026.made import archive, planned
from tests.papers.made import run

from creditscope.papers.claims import ClaimStatus
from creditscope.papers.tables import comparison_table
from creditscope.records.run import RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.verdict import Measurement
from creditscope_papers.hao2026.readings import NEAREST, SYSTEMS, readings_of

GRIDS = {
    "credit_bridge": ("scale_free", "error_scale", "matching", "target", "warm_up", "normalisation", "index"),
    "state_bridge": ("scale_free", "relative", "index", "normalisation", "penalty"),
    "ep": ("beta", "steps", "step_size", "guard", "updates_at", "normalisation"),
}


def settings(system: str) -> list[dict[str, object]]:
    """What every run of the first stage has for the factors of its grid; ours of EP lies outside of its grid."""
    specs = [spec for spec in planned(f"readings_{system}").values() if spec.setting("method.beta") != 0]
    return [
        {name: spec.penalty if name == "penalty" else spec.setting(f"method.{name}") for name in GRIDS[system]}
        for spec in specs
    ]


@pytest.mark.parametrize("system", SYSTEMS)
def test_any_two_factors_meet_in_all_their_combinations(system):
    runs = settings(system)
    for one, other in combinations(GRIDS[system], 2):
        levels = [{row[name] for row in runs} for name in (one, other)]
        assert {(row[one], row[other]) for row in runs} == set(product(*levels)), (one, other)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_first_stage_is_short_small_and_holds_ours(system):
    runs = planned(f"readings_{system}")
    assert len(runs) <= 40
    assert {(spec.epochs, spec.seed) for spec in runs.values()} == {(5, 42)}
    assert sum(reading.ours for reading in readings_of(archive(), f"readings_{system}", system)) == 1


def at(accuracy: float, *, diverged: bool = False):
    """EP whose every published number but the accuracy is met; with 4 steps it has that accuracy, else 90 %."""
    values = {"D0": 0.0, "D1": (2.87 * 10.96 * 6.1) ** (1 / 3), "D2": 1.5e-4, "D4": 0.1}
    measures = {"hidden_norm": Measurement(5e3)}

    def make(spec: RunSpec) -> RunRecord:
        return run(spec, accuracy if spec.setting("method.steps") == 4 else 0.9, values, measures, diverged=diverged)

    return make


def test_the_distance_is_the_root_mean_square_of_all_differences_in_standard_errors():
    off = 0.316 + 4 * 0.037 * math.sqrt(1 + 1 / 3)  # four standard errors, one of four published numbers
    nearest, *others = readings_of(archive(at(off), "readings_ep"), "readings_ep", "ep")
    assert nearest.distance == pytest.approx(2.0, rel=1e-9)
    assert nearest.largest == (pytest.approx(4.0), "accuracy")
    assert all(reading.distance >= nearest.distance for reading in others)
    first = comparison_table(archive(at(off), "readings_ep"), "readings_ep").rows[0]
    assert (first.row, first.note) == (nearest.name, "largest: 4, accuracy")


@pytest.mark.parametrize(("errors", "status"), [(1.99, "holds"), (2.01, "fails")])
def test_a_reading_is_near_within_two_standard_errors_of_every_number(errors, status):
    within = 0.316 + errors * 0.037 * math.sqrt(1 / 3 + 1 / 3)  # three seeds of ours, three published
    runs = archive(at(within), "readings_ep", "nearest_readings")
    assert NEAREST[2].ask(runs).status == status
    half = archive(lambda spec: at(within)(spec) if spec.setting("method.steps") == 4 else None, "nearest_readings")
    assert NEAREST[2].ask(half).status == ("holds" if status == "holds" else "undecided")
    assert NEAREST[2].ask(archive()).status is ClaimStatus.UNDECIDED


def test_the_first_stage_alone_decides_nothing():
    made = archive(at(0.316), "readings_ep")
    assert readings_of(made, "readings_ep", "ep")[0].largest[0] < 1
    assert NEAREST[2].ask(made).status is ClaimStatus.UNDECIDED


def test_a_diverged_run_is_infinitely_far():
    made = archive(at(0.316, diverged=True), "readings_ep")
    assert all(math.isinf(reading.distance) for reading in readings_of(made, "readings_ep", "ep"))
