"""Two numbers agree as Welch's t says, or as one more draw; where nothing spreads a fixed tolerance decides."""

from __future__ import annotations

import math
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as some
from scipy import stats
from tests.papers.made import figure

from creditscope.papers.comparison import (
    TOLERANCE,
    Agreement,
    Basis,
    compare,
    compare_flags,
    errors_apart,
    rounded,
    welch_of,
)

AGREES, DIFFERS, UNDECIDED = Agreement.AGREES, Agreement.DIFFERS, Agreement.UNDECIDED
NOT_PUBLISHED, NOT_RUN = Agreement.NOT_PUBLISHED, Agreement.NOT_RUN
shares = some.floats(0.05, 0.95)
samples = some.lists(shares, min_size=2, max_size=6)


def spreading(values) -> bool:
    return stdev(values) > 1e-3


@given(samples, shares, some.floats(0.001, 0.1), some.integers(2, 6))
def test_welchs_t_is_scipys_from_mean_std_and_count(values, mean, std, seeds):
    assume(spreading(values))
    found = compare(values, figure(mean=mean, std=std, seeds=seeds), "share")
    t, p = stats.ttest_ind_from_stats(
        fmean(values), stdev(values), len(values), mean, std, seeds, equal_var=False, alternative="two-sided"
    )
    assert found.errors == pytest.approx(t, rel=1e-9, abs=1e-9)
    assume(abs(p - 0.05) > 1e-9)
    assert (found.agreement is DIFFERS) == (p < 0.05)  # the degrees of freedom are Welch's too


@given(samples, samples)
def test_welchs_t_is_scipys_from_the_values_of_both_sides(values, theirs):
    assume(spreading(values) and spreading(theirs))
    found = compare(values, figure(values=tuple(theirs)), "share")
    t, p = stats.ttest_ind(values, theirs, equal_var=False)
    assert found.errors == pytest.approx(t, rel=1e-9, abs=1e-9)
    assert found.difference == pytest.approx(fmean(values) - fmean(theirs))
    assume(abs(p - 0.05) > 1e-9)
    assert (found.agreement is DIFFERS) == (p < 0.05)


@given(samples, shares)
def test_a_figure_without_a_spread_is_a_mean_of_draws_like_ours(values, mean):
    """A mean of m seeds differs if and only if it lies outside  mean ± t_{n-1} · s·√(1/n + 1/m)."""
    assume(spreading(values))
    n, m = len(values), 3
    half = stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) * math.sqrt(1 / n + 1 / m)
    distance = abs(mean - np.mean(values))
    assume(abs(distance - half) > 1e-9)
    mean = float(f"{mean:.12f}")  # printed with so many digits that rounding does not matter
    found = compare(values, figure(mean=mean), "share")
    assert (found.agreement is DIFFERS) == (distance > half)
    assert found.basis is Basis.OURS
    assert found.limit == pytest.approx(half)


@given(shares, shares, some.floats(0.001, 0.1), some.integers(2, 6))
def test_one_seed_of_ours_is_one_more_draw_of_the_published(value, mean, std, seeds):
    half = stats.t.ppf(0.975, seeds - 1) * std * math.sqrt(1 + 1 / seeds)
    assume(abs(abs(value - mean) - half) > 1e-9)
    found = compare([value], figure(mean=mean, std=std, seeds=seeds), "share")
    assert (found.agreement is DIFFERS) == (abs(value - mean) > half)
    assert found.basis is Basis.THEIRS


def test_a_prediction_interval_holds_one_more_draw_nineteen_times_in_twenty():
    draws = np.random.default_rng(0).normal(0.3, 0.01, size=(4000, 4))
    held = [
        compare(list(row[:3]), figure(mean=float(row[3]), seeds=1), "share").agreement is not DIFFERS for row in draws
    ]
    assert np.mean(held) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize(
    ("kind", "ours", "theirs", "agreement"),
    [
        ("share", 0.32, 0.305, AGREES),
        ("share", 0.33, 0.305, DIFFERS),
        ("cosine", 0.10, 0.14, AGREES),
        ("cosine", 0.10, 0.16, DIFFERS),
        ("scale", 1e8, 3.1e8, AGREES),
        ("scale", 1e8, 3.2e8, DIFFERS),
        ("points", 22.0, 20.5, AGREES),
        ("points", 22.0, 19.5, DIFFERS),
        ("count", 3.0, 3.0, AGREES),
        ("count", 3.0, 2.0, DIFFERS),
    ],
)
def test_without_any_spread_the_tolerance_of_the_kind_decides(kind, ours, theirs, agreement):
    found = compare([ours], figure(mean=theirs), kind)
    assert found.agreement is agreement
    assert found.errors is None
    assert (found.basis, found.limit) == (Basis.TOLERANCE, TOLERANCE[kind])


@pytest.mark.parametrize("theirs", [figure(mean=1.0), figure(values=(1.0, 1.0, 1.0)), figure(mean=1.0, std=0.0)])
def test_a_spread_of_zero_divides_nothing(theirs):
    found = compare([1.0, 1.0, 1.0], theirs, "count")
    assert (found.agreement, found.errors) == (AGREES, None)
    assert compare([2.0, 2.0, 2.0], theirs, "count").agreement is DIFFERS


@given(some.floats(1e-9, 1e9), some.integers(1, 4))
def test_whatever_would_be_printed_the_same_agrees_however_little_it_spreads(value, digits):
    """The mean lies within half a unit of the last printed digit."""
    shown = float(f"{value:.{digits - 1}e}")
    assume(all(abs(value - end) > 1e-9 * value for end in rounded(shown)))
    values = [value * (1 - 1e-12), value * (1 + 1e-12)]
    assert compare(values, figure(mean=shown), "scale").agreement is AGREES
    assert compare(values, figure(mean=shown), "cosine").agreement is AGREES


@pytest.mark.parametrize(
    ("printed", "ends"),
    [
        (0.008, (0.0075, 0.0085)),
        (200.0, (150.0, 250.0)),
        (694.0, (693.5, 694.5)),
        (1e5, (5e4, 1.5e5)),
        (0.0, (0.0, 0.0)),
    ],
)
def test_a_figure_stands_for_half_a_unit_of_its_last_digit(printed, ends):
    assert rounded(printed) == pytest.approx(ends)


def test_beyond_the_printed_digits_the_spread_decides_again():
    assert compare([0.00760, 0.00761, 0.00762], figure(mean=0.008), "scale").basis is Basis.DIGITS
    assert compare([0.00740, 0.00741, 0.00742], figure(mean=0.008), "scale").agreement is DIFFERS
    assert compare([2.4, 2.4, 2.4], figure(mean=2), "count").agreement is DIFFERS  # a count is not rounded


def test_scales_are_compared_as_logarithms():
    """A factor that both sides share changes nothing."""
    ours, theirs = [1e6, 1e8, 1e7], figure(values=(2e6, 3e7, 1e9))
    t = stats.ttest_ind(np.log10(ours), np.log10(theirs.values), equal_var=False).statistic
    found = compare(ours, theirs, "scale")
    moved = compare([7 * value for value in ours], figure(values=tuple(7 * v for v in theirs.values)), "scale")
    assert found.errors == pytest.approx(t)
    assert moved.errors == pytest.approx(found.errors)
    assert found.difference == pytest.approx(np.mean(np.log10(ours)) - np.mean(np.log10(theirs.values)))


def test_the_published_std_of_a_scale_is_not_one_of_logarithms_and_is_left_out():
    assert compare([1e4, 2e4, 3e4], figure(mean=2e4, std=5e3), "scale").basis is Basis.OURS


@pytest.mark.parametrize(
    ("kind", "values", "agreement"),
    [
        ("share", [0.605], AGREES),
        ("share", [0.581], AGREES),  # within 2 points of the nearest end
        ("share", [0.574], DIFFERS),
        ("share", [0.604, 0.605, 0.606], AGREES),
        ("share", [0.596, 0.5961, 0.5959], AGREES),  # what 0.60 may stand for
        ("share", [0.5, 0.501, 0.502], DIFFERS),
    ],
)
def test_of_a_range_the_nearest_point_counts(kind, values, agreement):
    assert compare(values, figure(low=0.60, high=0.61), kind).agreement is agreement


def test_inside_a_range_nothing_differs():
    found = compare([1e2, 1e6], figure(low=1e3, high=1e5), "scale")  # their geometric mean, not the other one
    assert (found.agreement, found.difference, found.errors) == (AGREES, 0.0, 0.0)


@pytest.mark.parametrize(
    ("values", "theirs", "agreement"),
    [
        ([0.0, 1e-9, 0.0], figure(low=0, high=4.2e-9), AGREES),
        ([0.0, 1e-3], figure(low=0, high=4.2e-9), DIFFERS),
        ([0.0, 0.0], figure(mean=1e-9), DIFFERS),
        ([3e-9], figure(low=0, high=4.2e-9), AGREES),
        ([3e-8], figure(low=0, high=4.2e-9), DIFFERS),
    ],
)
def test_a_norm_of_zero_has_no_logarithm_and_lies_in_a_range_that_begins_at_zero(values, theirs, agreement):
    assert compare(values, theirs, "scale").agreement is agreement


@pytest.mark.parametrize("kind", ["share", "cosine", "scale", "count"])
@pytest.mark.parametrize("theirs", [figure(mean=0.5), figure(values=(0.5, 0.6)), figure(never=True)])
def test_what_is_not_a_number_never_agrees(kind, theirs):
    found = compare([0.5, math.nan, 0.5], theirs, kind)
    assert (found.agreement, found.note) == (DIFFERS, "ours is undefined on 1 of 3 seeds")
    assert compare([math.nan], theirs, kind).note == "ours is undefined"


def test_never_agrees_with_never_on_every_seed_only():
    never = figure(never=True)
    found = compare([math.inf] * 3, never, "epoch", 30)
    assert (found.agreement, found.note) == (AGREES, "ours: not within 30 epochs")
    assert compare([math.inf, math.inf, 30.0], never, "epoch", 30).agreement is DIFFERS


def test_never_within_fewer_epochs_than_theirs_is_no_agreement():
    never = figure(never=True)
    found = compare([math.inf] * 3, never, "epoch", 30, published_epochs=100)
    assert (found.agreement, found.note) == (UNDECIDED, "ours: not within 30 epochs, theirs: not within 100")
    assert compare([math.inf] * 3, never, "epoch", 100, published_epochs=100).agreement is AGREES
    assert compare([2.0], never, "epoch", 3, published_epochs=100).agreement is DIFFERS


@pytest.mark.parametrize(
    ("kind", "ours", "theirs", "agreement"),
    [
        ("share", [0.10, 0.245], figure(mean=0.289, std=0.031), UNDECIDED),  # 11 points, 1.5 s.e.
        ("share", [0.395, 0.42, 0.37], figure(mean=0.401, std=0.009), AGREES),  # half a point
        ("share", [0.300, 0.301, 0.302], figure(mean=0.401, std=0.009), DIFFERS),
        ("scale", [1e-10, 7e-4], figure(mean=4e-9), UNDECIDED),
        ("cosine", [0.5, 0.0], figure(values=(0.07, 0.08, 0.06)), UNDECIDED),
        ("epoch", [4.0, 3.0, 4.0], figure(values=(4, 4, 3)), AGREES),
        ("epoch", [2.0, 9.0, 4.0], figure(values=(8, 11, 4)), UNDECIDED),
    ],
)
def test_what_the_spreads_do_not_tell_apart_agrees_only_within_the_tolerance(kind, ours, theirs, agreement):
    found = compare(ours, theirs, kind)
    assert found.agreement is agreement
    assert found.limit is not None
    assert (abs(found.difference) > found.limit) == (agreement is DIFFERS)


@given(some.lists(some.floats(0.01, 0.99), min_size=1, max_size=4), some.integers(1, 3), some.booleans())
def test_a_number_differs_if_and_only_if_its_difference_is_beyond_its_limit(values, places, spread):
    """One rule: the column of differences and the verdict can never contradict each other."""
    theirs = figure(mean=round(0.5 + 0.001 * len(values), places), std=0.02 if spread else None)
    for kind in ("share", "cosine", "scale"):
        found = compare(values, theirs, kind)
        assume(abs(abs(found.difference) - found.limit) > 1e-9)
        assert (found.agreement is DIFFERS) == (abs(found.difference) > found.limit)


def test_nine_standard_errors_within_the_printed_digits_have_the_digits_as_their_limit():
    """Ours +0.074 ± 0.003 against a printed 0.1, which may stand for anything from 0.05 to 0.15."""
    found = compare([0.0778, 0.0715, 0.0730], figure(mean=0.1), "cosine")
    assert abs(found.errors) > 9
    assert (found.agreement, found.basis, found.limit) == (AGREES, Basis.DIGITS, pytest.approx(0.05))


@pytest.mark.parametrize(
    ("ours", "low", "high", "difference", "agreement"),
    [
        (0.51, 0.60, 0.61, -0.09, DIFFERS),
        (0.596, 0.60, 0.61, -0.004, AGREES),
        (0.605, 0.60, 0.61, 0.0, AGREES),
        (0.9, None, 0.61, 0.29, DIFFERS),
        (0.1, None, 0.0, 0.1, DIFFERS),
    ],
)
def test_the_difference_to_a_range_is_to_its_printed_end(ours, low, high, difference, agreement):
    found = compare([ours], figure(low=low, high=high), "share")
    assert found.difference == pytest.approx(difference)
    assert found.agreement is agreement


def test_what_did_not_come_in_time_says_nothing_about_later_epochs():
    absent = [math.inf, 4.0, 3.0]
    found = compare(absent, figure(values=(4, 4, 3)), "epoch", 30)
    assert (found.agreement, found.note) == (DIFFERS, "not within 30 epochs on 1 of 3 of our seeds")
    assert compare(absent, figure(values=(18, 14, 35)), "epoch", 30).agreement is UNDECIDED
    assert compare([math.inf], figure(mean=3), "epoch", 3).agreement is DIFFERS
    assert compare([math.inf], figure(mean=3), "epoch", 2).agreement is UNDECIDED


def test_a_number_of_any_size_without_a_spread_is_compared_in_decades():
    assert compare([-4e-5], figure(mean=-5e-5), "size").agreement is AGREES
    assert compare([-4e-2], figure(mean=-1e-3), "size").agreement is DIFFERS
    assert compare([4e-5], figure(mean=-5e-5), "size").agreement is DIFFERS


def test_a_spread_of_draws_has_the_error_of_a_sample_standard_deviation():
    """The logarithm of the standard deviation of 20 draws scatters by 1/(ln 10 · √38)."""
    draws = np.random.default_rng(0).normal(size=(20_000, 20)).std(axis=1, ddof=1)
    scatter = np.log10(draws).std()
    found = compare([0.01], figure(mean=0.02), "spread")
    assert found.difference / found.errors == pytest.approx(scatter * math.sqrt(2), rel=0.03)


def test_a_gradient_of_a_larger_batch_is_compared_at_the_usual_one():
    assert compare([8e-6], figure(mean=1e-6, images=1024), "scale").difference == pytest.approx(0)


def test_welchs_interval_of_two_published_means_is_scipys():
    left, right = figure(mean=0.316, std=0.037), figure(mean=0.349, std=0.003)
    half = np.diff(welch_of(left, right))[0] / 2
    found = stats.ttest_ind_from_stats(0.316, 0.037, 3, 0.349, 0.003, 3, equal_var=False)
    error = abs((0.316 - 0.349) / found.statistic)
    freedom = (0.037**2 / 3 + 0.003**2 / 3) ** 2 / ((0.037**2 / 3) ** 2 / 2 + (0.003**2 / 3) ** 2 / 2)
    assert half == pytest.approx(stats.t.ppf(0.975, freedom) * error)
    assert all(math.isnan(end) for end in welch_of(left, figure(mean=0.3)))


def test_an_infinite_norm_is_not_an_event_that_never_came():
    found = compare([math.inf], figure(mean=1e8), "scale")
    assert (found.agreement, found.note) == (DIFFERS, "ours is infinite")


def test_nothing_of_ours_is_not_run_and_nothing_of_theirs_is_not_published():
    assert compare([], figure(mean=1.0), "share").agreement is NOT_RUN
    assert compare([], None, "share").agreement is NOT_RUN
    assert compare([1.0], None, "share").agreement is NOT_PUBLISHED
    assert compare([1.0], figure(), "share").agreement is NOT_PUBLISHED


FAILED, SILENT = figure(flags=("(a)", "(b)", "(d)")), figure(flags=())


@pytest.mark.parametrize(
    ("found", "theirs", "unknown", "agreement", "note"),
    [
        ([("(a)", "(b)", "(d)")] * 3, FAILED, (), AGREES, "the same on 3 of 3 seeds"),
        ([("(a)", "(b)", "(d)"), ("(a)",)], FAILED, (), DIFFERS, "the same on 1 of 2 seeds"),
        ([()], SILENT, (), AGREES, ""),
        ([("non-finite",)], SILENT, (), DIFFERS, ""),
        ([("(a)", "(b)")], FAILED, [("(d)",)], NOT_RUN, "(d) not measured"),
        ([("(a)",)], FAILED, [("(d)",)], DIFFERS, "(d) not measured"),
        ([()], SILENT, [("(d)",)], NOT_RUN, "(d) not measured"),
        ([()], figure(flags=(), unmeasured=("(d)",)), [("(d)",)], AGREES, "(d) not measured"),
        ([()], SILENT, [("non-finite", "(a)", "(b)", "(d)")], NOT_RUN, "non-finite, (a), (b), (d) not measured"),
        ([], FAILED, (), NOT_RUN, ""),
        ([()], None, (), NOT_PUBLISHED, ""),
        ([()], figure(mean=1.0), (), NOT_PUBLISHED, ""),
    ],
)
def test_flags_agree_where_they_are_the_same_on_every_seed(found, theirs, unknown, agreement, note):
    compared = compare_flags(found, theirs, unknown)
    assert (compared.agreement, compared.note) == (agreement, note)


@pytest.mark.parametrize(
    ("values", "published", "kind", "errors"),
    [
        ([0.5], {"mean": 0.3, "std": 0.1}, "share", 2 / math.sqrt(1 + 1 / 3)),
        ([0.4, 0.6], {"mean": 0.3, "std": 0.1, "seeds": 2}, "share", 2.0),  # their spread, whatever ours is
        ([0.5], {"mean": 0.3}, "share", 0.2 / 0.01),  # no spread: half the tolerance is one
        ([1e3], {"mean": 1e5}, "scale", 2 / 0.25),
        ([1e3], {"values": [1e4, 1e5, 1e6]}, "scale", 2 / math.sqrt(1 + 1 / 3)),
        ([-0.12], {"mean": 0.12}, "size", 4.0),  # of any size: half of itself is one
        ([0.34], {"mean": 0.3}, "cosine", 0.0),  # 0.3 is what 0.34 is printed as
        ([4e-9], {"high": 4.2e-9}, "scale", 0.0),
        ([math.nan], {"mean": 0.3}, "share", math.inf),
        ([0.0], {"mean": 1e-5}, "scale", math.inf),
    ],
)
def test_numbers_are_so_many_standard_errors_apart(values, published, kind, errors):
    assert errors_apart(values, figure(**published), kind) == pytest.approx(errors, rel=1e-9)
