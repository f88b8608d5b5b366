"""Our own findings hold, fail or stay open as the records say, whatever ours say."""

from __future__ import annotations

import math

import pytest
from tests.creditscope_papers.hao2026.made import archive
from tests.creditscope_papers.hao2026.test_claims import LAYER_0, answer, only
from tests.papers.made import EXPLODED, HEALTHY, epoch, run

from creditscope.records.run import HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.verdict import Measurement
from creditscope_papers.hao2026 import findings


def normalised(explode=("sample",), values=EXPLODED, absent=()):
    def make(spec: RunSpec) -> RunRecord | None:
        how = spec.method_options["normalisation"]
        return None if how in absent else run(spec, values=values if how in explode else HEALTHY)

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (normalised(), "holds"),
        (normalised(explode=("sample", "batch")), "fails"),
        (normalised(explode=()), "fails"),
        (normalised(values={**EXPLODED, "D2": 1e-3}), "holds"),  # growth is what is asked for
        (normalised(values={**EXPLODED, "D1": math.nan}), "undecided"),
        (normalised(absent=("none",)), "undecided"),
        (normalised(values=None), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_normalising_each_sample_is_what_explodes(make, status):
    assert answer(findings.normalisation_explodes, make, "credit_normalisation") == status


def sized(sample: float, batch: float, none: float, absent=()):
    norms = {"sample": sample, "batch": batch, "none": none}

    def make(spec: RunSpec) -> RunRecord | None:
        how = spec.method_options["normalisation"]
        return None if how in absent else run(spec, measures={"hidden_norm": Measurement(norms[how])})

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (sized(1e8, 1e6, 1e6), "holds"),
        (sized(1e7, 1.01e6, 1e4), "fails"),
        (sized(1e7, 1e6, math.nan), "undecided"),
        (sized(1e8, 1e6, 1e6, absent=("none",)), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_normalising_each_sample_drives_the_stream_ten_times_further(make, status):
    assert answer(findings.normalisation_drives, make, "credit_normalisation") == status


def test_the_stream_is_driven_further_only_if_every_seed_says_so():
    whole = archive(sized(1e8, 1e6, 1e6), "credit_normalisation", budget="paper")
    assert findings.normalisation_drives.ask(whole).status == "holds"
    for present in ((42,), (42, 456)):
        made = archive(only(present, sized(1e8, 1e6, 1e6)), "credit_normalisation", budget="paper")
        assert findings.normalisation_drives.ask(made).status == "undecided"
    assert "2 runs missing" in findings.normalisation_drives.ask(made).because


@pytest.mark.parametrize("how", ["sample", "batch", "none"])
@pytest.mark.parametrize("seed", [42, 123, 456])
@pytest.mark.parametrize("unknown", [math.nan, math.inf])
def test_one_norm_that_is_not_finite_leaves_open_how_far_the_stream_is_driven(how, seed, unknown):
    def make(spec: RunSpec) -> RunRecord | None:
        is_it = (spec.method_options["normalisation"], spec.seed) == (how, seed)
        return sized(unknown, unknown, unknown)(spec) if is_it else sized(1e8, 1e6, 1e6)(spec)

    made = archive(make, "credit_normalisation", budget="paper")
    assert findings.normalisation_drives.ask(made).status == "undecided"


def test_under_the_paper_budget_every_seed_is_wanted():
    made = archive(only((42,), normalised()), "credit_normalisation", budget="paper")
    assert findings.normalisation_explodes.ask(made).status == "undecided"
    assert "6 of 18" in findings.normalisation_explodes.ask(made).because


def indexed(inputs=-0.05, outputs=0.9, gammas=LAYER_0):
    """Runs whose D5 has these values."""

    def make(spec: RunSpec) -> RunRecord | None:
        value = inputs if spec.method_options.get("index", "output") == "input" else outputs
        return run(spec, values={**HEALTHY, "D5": value}, measures={"gamma": Measurement(0.1, per_layer=gammas)})

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (indexed(), "holds"),
        (indexed(outputs=-0.05), "fails"),  # both are carried by layer 0
        (indexed(inputs=0.9), "fails"),
        (indexed(gammas=(0.0, 0.42, 0.0, 0.0, 0.0)), "fails"),  # one layer, but not layer 0
        (indexed(inputs=math.nan), "undecided"),
        (indexed(outputs=math.nan), "undecided"),
        (only((42, 123), indexed()), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_the_index_decides_whether_layer_0_carries_all(make, status):
    assert answer(findings.index_decides, make, "early_epochs") == status


def relaxed(bp=0.58, ep: float | None = 0.57, frozen: float | None = 0.35, values=HEALTHY):
    def make(spec: RunSpec) -> RunRecord | None:
        if spec.method not in ("bp", "ep") or spec.control == "shallow":
            return None
        if spec.control == "frozen":
            return None if frozen is None else run(spec, frozen)
        accuracy = bp if spec.method == "bp" else ep
        return None if accuracy is None else run(spec, accuracy, values)

    return make


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (relaxed(), "holds"),
        (relaxed(ep=0.561), "holds"),
        (relaxed(ep=0.70), "holds"),
        (relaxed(ep=0.559), "fails"),
        (relaxed(frozen=0.57), "fails"),  # close, but its depth is not used
        (relaxed(frozen=None), "undecided"),
        (relaxed(ep=0.30, frozen=None), "fails"),
        (relaxed(ep=None), "undecided"),
        (only((42,), relaxed()), "undecided"),
        (only((42,), relaxed(ep=0.30)), "fails"),
    ],
)
def test_relaxed_ep_tracks_bp(make, status):
    assert answer(findings.relaxed_ep_tracks_bp, make, "main_audit") == status


def rho(own=0.65, absolute=0.09, relative=0.17):
    names = {"rho_absolute_bp": own, "rho_absolute": absolute, "rho": relative}
    return lambda spec: run(spec, measures={name: Measurement(value) for name, value in names.items()})


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (rho(), "holds"),
        (rho(absolute=-0.01, relative=-0.17), "holds"),
        (rho(own=0.99), "fails"),  # nothing was lost
        (rho(absolute=0.2), "holds"),  # steps relative to the stream weigh the samples otherwise
        (rho(own=0.0), "undecided"),
        (rho(own=math.nan), "undecided"),
        (only((42,), rho()), "undecided"),
        (only((42,), rho(own=0.99)), "fails"),
        (lambda spec: run(spec), "undecided"),
    ],
)
def test_the_published_rho_is_attenuated(make, status):
    assert answer(findings.published_rho_is_attenuated, make, "triangulation") == status


def fa(*inexact):
    gamma = {"gamma": Measurement(0.1, per_layer=(0.3, *inexact, 1.0))}
    return lambda spec: run(spec, measures=gamma) if spec.method == "fa" else None


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (fa(0.05, 0.05, 0.1), "holds"),
        (fa(0.3, 0.3, 0.39), "holds"),
        (fa(0.3, 0.3, 0.41), "fails"),  # the others are more than the one
        (fa(0.9, 0.9, 0.9), "fails"),
        (fa(math.nan, 0.1, 0.1), "undecided"),
        (only((42,), fa(0.1, 0.1, 0.1)), "undecided"),
        (lambda spec: run(spec, values=None), "undecided"),
    ],
)
def test_fas_deep_alignment_is_mostly_its_exact_layer(make, status):
    assert answer(findings.exact_layer_carries_fa, make, "main_audit") == status


PUBLISHED_D2 = tuple(8 * one for one in (1.4e-6, 3e-7, 1.3e-7, 7e-8, 4e-8))  # at N = 128
PUBLISHED_H = (1616.0, 9768.0, 14510.0)
D1_AFTER, D2_AFTER = 9, 4
HALF = (8.0, 1.0, 0.125)  # how much faster the stream grows at the three rates: as published at the second
WHOLE = (1.0, 8.0, 0.125)  # as published at the first


def growing(faster=HALF, *, g=None, d1=None, d2=None, h=None, before=0.0077, absent=()):
    """Runs at three learning rates, by so many times faster than published; a measure may have factors of its own."""

    def at(rate: float, own) -> float:
        return dict(zip((1e-3, 5e-4, 2.5e-4), own or faster, strict=True))[rate]

    def make(spec: RunSpec) -> RunRecord | None:
        if spec.epochs == 0:
            return None if before is None else run(spec, values={**HEALTHY, "D2": before})
        if (spec.learning_rate, spec.random_labels, spec.seed) in absent:
            return None
        rate = spec.learning_rate
        first_d1 = D1_AFTER - math.log(at(rate, d1))  # the first epoch after which it fires
        first_d2 = D2_AFTER - math.log(at(rate, d2)) / 2
        history = [
            epoch(
                number,
                d1=60.0 if number >= first_d1 else 2.0,
                d2=PUBLISHED_D2[number - 1] / at(rate, g) if number <= 5 else 1e-3,
                hidden_norms=(9.0, 9.0, 9.0, 9.0, PUBLISHED_H[min(number, 3) - 1] * at(rate, h)),
            )
            for number in range(1, 13)
        ]
        return run(spec, history=history if d2 is None else [_collapsing(row, first_d2) for row in history])

    return make


def _collapsing(row: HistoryRow, first: float) -> HistoryRow:
    """The same epoch of a run whose D2 at N = 1,024 fires from `first` on."""
    return row.model_copy(update={"d2": 1e-9 if row.epoch + 1 >= first else 1e-3})


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (growing(), "holds"),
        (growing(WHOLE), "fails"),
        (growing((8.0, 0.125, 1.0)), "fails"),
        (growing((2.0, 2.0, 2.0)), "fails"),  # as near as the others is not nearest
        (growing(g=WHOLE), "fails"),  # one measure that speaks against it is enough
        (growing(d1=WHOLE), "fails"),
        (growing(d2=WHOLE), "fails"),
        (growing(h=WHOLE), "fails"),
        (growing(before=0.001), "fails"),  # then the published gradients were of the usual batch
        (growing(before=None), "undecided"),
        (growing((8.0, 1.0, math.exp(-9))), "holds"),  # whose D1 does not fire at all
        (growing(h=(8.0, math.nan, 0.125)), "undecided"),
        (growing(absent={(5e-4, True, 42)}), "undecided"),
        (growing(absent={(1e-3, False, 123)}), "undecided"),
        (lambda spec: None, "undecided"),
    ],
)
def test_half_the_learning_rate_comes_nearest(make, status):
    assert answer(findings.half_the_rate_comes_nearest, make, "learning_rate", "random_init") == status


@pytest.mark.parametrize("claim", findings.FINDINGS, ids=lambda claim: claim.experiment + ": " + claim.statement)
def test_without_records_every_finding_is_undecided(claim):
    found = claim.ask(archive())
    assert (found.status, found.keys) == ("undecided", ())
