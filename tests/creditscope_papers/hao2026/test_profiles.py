"""The profile of a run is that of the last epoch before its reference collapsed."""

from __future__ import annotations

import math

import pytest
from tests.creditscope_papers.hao2026.made import archive, planned
from tests.papers.made import HEALTHY, epoch, run

from creditscope.runs.spec import RunSpec
from creditscope.verdict import Measurement
from creditscope_papers.hao2026.profiles import (
    LONG,
    SHORT,
    aggregation_text,
    best_layer,
    carried_by_layer_zero,
    carried_by_one,
    early_runs,
    last_valid_row,
    mean_size,
    verb,
)

ONE = (0.42, 0.006, -0.015, -0.004, -0.004)


@pytest.mark.parametrize(
    ("d2", "last"),
    [
        ((1e-3, 1e-4, 1e-5), 3),
        ((1e-3, 1e-8, 1e-9), 1),
        ((1e-3, 1e-8, 1e-3), 1),  # what comes after a collapse does not count
        ((1e-3, math.nan, 1e-3), 1),
        ((1e-8, 1e-3, 1e-3), None),
    ],
)
def test_the_last_epoch_before_the_reference_collapsed(d2, last):
    made = run(RunSpec(), history=[epoch(number + 1, d2=value, gamma=ONE) for number, value in enumerate(d2)])
    row = last_valid_row(made)
    assert (None if row is None else row.epoch + 1) == last


def test_a_history_without_alignment_has_no_profile():
    assert last_valid_row(run(RunSpec())) is None


@pytest.mark.parametrize(
    ("gamma", "left", "one", "zero"),
    [
        (ONE, -0.05, True, True),
        (ONE[::-1], -0.05, True, False),
        ((0.3, 0.3, 0.3), 1.0, False, False),
        ((0.3, 0.3, 0.3), math.nan, None, None),
    ],
)
def test_one_layer_carries_where_d5_fires(gamma, left, one, zero):
    made = run(RunSpec(), values={**HEALTHY, "D5": left}, measures={"gamma": Measurement(0.1, per_layer=gamma)})
    assert (carried_by_one(made), carried_by_layer_zero(made)) == (one, zero)
    status = verb(made.report.findings["D5"].status)
    assert aggregation_text(made) == f"D5 {status}, R = {left:.2f} without layer {best_layer(made)}, after 2 epochs"


def test_without_d5_nothing_is_known():
    for made in (run(RunSpec()), run(RunSpec(), values=None)):
        assert (carried_by_one(made), carried_by_layer_zero(made), best_layer(made)) == (None, None, None)
        assert aggregation_text(made) == "D5 was not measured"
    assert math.isnan(mean_size(None, 2))


@pytest.mark.parametrize("budget", ["laptop", "paper"])
def test_short_runs_are_distinguished_from_long_ones(budget):
    runs = archive(run, "early_epochs", budget=budget)
    lengths = {spec.epochs for spec in planned("early_epochs", budget).values()}
    assert min(lengths) == SHORT
    for epochs in (SHORT, LONG):
        selected = early_runs(runs, "input", epochs)
        assert selected.seeds == (42, 123, 456)
        assert len({spec.epochs for spec in selected.specs.values()}) == 1


def test_sizes_are_averaged_without_their_sign():
    assert mean_size(epoch(gamma=(9.0, 9.0, 0.3, -0.3)), 2) == pytest.approx(0.3)
