"""Every number of a table is read from the record of a run, and one that is not there is no number."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.papers.made import HEALTHY, epoch, run

from creditscope.papers import quantities as q
from creditscope.runs.spec import RunSpec
from creditscope.verdict import Measurement

SPEC = RunSpec(method="dfa", data="cifar10", epochs=3)
GAMMA = {"gamma": Measurement(0.05, per_layer=(0.4, 0.1, 0.2, 0.3, 1.0))}


def history(d1=(1.0, 1.0, 1.0), d2=(1e-3, 1e-3, 1e-3)):
    return [epoch(number + 1, d1=one, d2=two) for number, (one, two) in enumerate(zip(d1, d2, strict=True))]


def test_the_deep_mean_holds_the_exact_layer_and_beside_it_stands_the_one_without():
    made = run(SPEC, measures=GAMMA)
    assert q.DEEP_GAMMA.read(made) == pytest.approx((0.1 + 0.2 + 0.3 + 1.0) / 4)
    assert q.DEEP_GAMMA_INEXACT.read(made) == 0.05
    assert [q.gamma(layer).read(made) for layer in range(5)] == [0.4, 0.1, 0.2, 0.3, 1.0]
    assert math.isnan(q.gamma(5).read(made))


@pytest.mark.parametrize(
    ("d1", "first"),
    [
        ((60.0, 70.0, 80.0), 1.0),
        ((10.0, 60.0, 10.0), 2.0),
        ((10.0, 20.0, 50.0), math.inf),  # at the limit it does not fire
        ((math.nan, 60.0, 60.0), 2.0),
    ],
)
def test_the_first_epoch_of_a_diagnostic_counts_from_one(d1, first):
    assert q.FIRST_D1.read(run(SPEC, history=history(d1=d1))) == first


def test_never_is_said_only_of_a_run_that_was_measured_to_its_end():
    assert q.FIRST_D2.read(run(SPEC, history=history())) == math.inf
    assert q.FIRST_D2.read(run(SPEC, history=history(d2=(1e-3, 1e-8, 1e-3)))) == 2.0
    assert math.isnan(q.FIRST_D2.read(run(SPEC, history=history(d2=(1e-3, math.nan, 1e-3)))))
    assert math.isnan(q.FIRST_D2.read(run(SPEC, history=history(), diverged=True)))
    assert math.isnan(q.FIRST_D2.read(run(SPEC).model_copy(update={"history": ()})))


def test_an_untrained_network_has_epoch_zero():
    assert q.FIRST_D1.read(run(SPEC, history=[epoch(0, d1=60.0)])) == 0.0


def test_a_number_of_an_epoch_is_that_epochs_or_none():
    norm = q.at_epoch("h_L", "‖h_L‖", "scale", 2, lambda row: row.hidden_norms[-1], early=True)
    made = run(SPEC, history=[epoch(1, hidden_norms=(1.0, 2.0)), epoch(2, hidden_norms=(3.0, 4.0))])
    assert (norm.name, norm.read(made), norm.early) == ("h_L_2", 4.0, True)
    assert math.isnan(norm.read(run(SPEC, history=[epoch(1)])))
    assert q.row_deep_gamma(epoch(gamma=(9.0, 0.1, 0.3))) == pytest.approx(0.2)


def test_the_loss_falls_from_the_first_epoch_to_the_last():
    assert q.LOSS_DROP.read(run(SPEC, history=[epoch(1, loss=2.0), epoch(2, loss=9.0), epoch(3, loss=1.5)])) == 0.5
    assert math.isnan(q.LOSS_DROP.read(run(SPEC, history=[epoch(0, loss=math.nan)])))


def draws_of_layers(layers=4, draws=20_000):
    """Γ per layer of many fresh draws, independent from layer to layer, of unequal spread."""
    return np.random.default_rng(0).normal(size=(draws, layers)) * np.array([0.02, 0.01, 0.03, 0.015])[:layers]


def null(z: float, gamma: float = 0.16, centre: float = 0.002):
    spreads = (9.0, *draws_of_layers().std(axis=0, ddof=1))
    measures = {
        "gamma": Measurement(gamma),
        "gamma_null": Measurement(centre),
        "gamma_null_std": Measurement(0.5, per_layer=spreads),
    }
    return run(SPEC, values={**HEALTHY, "D6": z}, measures=measures)


def test_the_spread_of_the_null_is_what_z_was_divided_by():
    assert q.NULL_STD.read(null(z=8.0)) == pytest.approx((0.16 - 0.002) / 8)


@pytest.mark.parametrize("z", [0.0, 0.4, -0.4, math.nan])
def test_where_z_is_too_small_to_divide_by_the_spread_is_not_known(z):
    assert math.isnan(q.NULL_STD.read(null(z)))
    assert math.isnan(q.NULL_STD.read(run(SPEC, values={**HEALTHY, "D6": z})))


@pytest.mark.parametrize(
    "quantity", [one for one in vars(q).values() if isinstance(one, q.Quantity)], ids=lambda one: one.name
)
def test_a_run_without_an_audit_has_numbers_of_its_history_only(quantity):
    found = quantity.read(run(SPEC, values=None, measures={}, history=history()))
    assert isinstance(found, float)
    assert math.isnan(found) or quantity.name in ("accuracy", "first_D1", "first_D2", "loss_drop")


def test_names_of_quantities_are_unique():
    names = [one.name for one in vars(q).values() if isinstance(one, q.Quantity)]
    assert len(names) == len(set(names)) > 15
