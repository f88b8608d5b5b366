"""Comparisons of methods: p-values agree with their intervals, Holm with its definition, improvement with scipy."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import permutations

import numpy
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from creditscope.statistics.comparison import compare_all, holm, probability_of_improvement
from creditscope.statistics.margin import margin_of_accuracies, p_value
from creditscope.statistics.power import seeds_to_settle

ENDLESS = 10**12  # test images whose error is nil
SHARES = st.lists(st.floats(0.05, 0.95), min_size=2, max_size=6)


@given(SHARES, SHARES)
def test_improvement_is_mann_and_whitneys_u(left, right):
    u = scipy.stats.mannwhitneyu(left, right, method="asymptotic", use_continuity=False).statistic
    assert probability_of_improvement(left, right) == pytest.approx(u / (len(left) * len(right)))
    assert probability_of_improvement(left, right) == pytest.approx(1 - probability_of_improvement(right, left))


def test_improvement_of_a_diverged_run_is_unknown():
    assert math.isnan(probability_of_improvement([0.1, math.nan], [0.2, 0.3]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.001, 0.999))
def test_holm_rejects_what_its_step_down_procedure_rejects(p_values, alpha):
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    rejected = set()
    for rank, index in enumerate(order):  # the definition: stop at the first that is not small enough
        if p_values[index] * (len(p_values) - rank) > alpha:
            break
        rejected.add(index)
    assert {index for index, p in enumerate(holm(p_values)) if p <= alpha} == rejected


def test_holm_does_not_depend_on_the_order_and_nan_is_never_rejected():
    for order in permutations(range(4)):
        values = [0.01, 0.04, 0.03, math.nan]
        adjusted = holm([values[index] for index in order])
        assert dict(zip(order, adjusted, strict=True)) == pytest.approx({0: 0.04, 1: 0.09, 2: 0.09, 3: 1.0})


@given(SHARES, SHARES, st.sampled_from([None, 50, 1000]))
def test_a_p_value_is_below_5_percent_exactly_where_the_interval_excludes_zero(left, right, images):
    margin = margin_of_accuracies(left, right, images=images)
    low, high = margin.interval
    if min(abs(low), abs(high)) < 1e-9:
        return
    assert (p_value(margin) < 0.05) == (low > 0 or high < 0)


def test_with_endless_images_the_p_value_is_welchs():
    left, right = [0.61, 0.63, 0.66], [0.58, 0.57, 0.62]
    expected = scipy.stats.ttest_ind(left, right, equal_var=False).pvalue
    assert p_value(margin_of_accuracies(left, right, images=ENDLESS)) == pytest.approx(expected, rel=1e-4)


def test_correlated_seeds_are_paired_and_the_p_value_is_that_of_the_paired_t():
    left, right = {s: 0.6 + 0.05 * s for s in range(5)}, {s: 0.58 + 0.05 * s + 0.001 * s**2 for s in range(5)}
    (pair,) = compare_all({"a": left, "b": right}, ENDLESS)
    expected = scipy.stats.ttest_rel(list(left.values()), list(right.values())).pvalue
    assert "paired t-interval over 5 seeds" in pair.how
    assert pair.p == pytest.approx(expected, rel=1e-4)
    assert pair.differences == pytest.approx([left[s] - right[s] for s in range(5)])


def test_seeds_are_matched_by_number_and_lone_ones_left_out():
    (pair,) = compare_all({"a": {3: 0.5, 1: 0.7, 9: 0.1}, "b": {1: 0.6, 3: 0.45}})
    assert pair.seeds == (3, 1)
    assert pair.differences == pytest.approx([0.05, 0.1])
    (other,) = compare_all({"a": {1: 0.5, 2: 0.7}, "b": {3: 0.6, 4: 0.45}})
    assert (other.seeds, other.differences) == ((), ())
    assert other.difference == pytest.approx(0.075)


def test_all_pairs_are_corrected_together_and_open_ones_say_how_many_seeds_are_missing():
    generator = numpy.random.default_rng(0)
    methods = {
        name: {seed: centre + 0.01 * generator.standard_normal() for seed in range(4)}
        for name, centre in (("bp", 0.7), ("fa", 0.6), ("dfa", 0.59))
    }
    pairs = compare_all(methods, images=1000)
    assert [(pair.left, pair.right) for pair in pairs] == [("bp", "fa"), ("bp", "dfa"), ("fa", "dfa")]
    assert [pair.adjusted for pair in pairs] == pytest.approx(holm([pair.p for pair in pairs]))
    assert [pair.decided for pair in pairs] == [True, True, False]
    assert pairs[0].more is None


def test_the_seeds_that_would_decide_do_decide_in_the_long_run():
    spread = dict(enumerate((0.58, 0.60, 0.62)))
    (pair,) = compare_all(
        {"a": {s: v + 0.02 for s, v in spread.items()}, "b": dict(enumerate((0.61, 0.58, 0.60)))}, ENDLESS
    )
    assert not pair.decided
    assert pair.more is not None
    needed, generator, decided = 3 + pair.more, numpy.random.default_rng(1), 0
    sd = math.sqrt((numpy.var(list(spread.values()), ddof=1) + numpy.var((0.61, 0.58, 0.60), ddof=1)) / 2)
    for _ in range(400):
        arms = [dict(enumerate(centre + sd * generator.standard_normal(needed))) for centre in (0.62, 0.5966667)]
        decided += compare_all({"a": arms[0], "b": arms[1]}, ENDLESS)[0].p < 0.05
    assert 0.7 < decided / 400 < 0.92  # 80 % by design


@pytest.mark.parametrize("images", [None, 1000])
def test_what_an_open_pair_lacks_is_what_settles_it_less_what_there_is(images):
    left, right = {1: 0.60, 2: 0.66, 3: 0.63}, {1: 0.59, 2: 0.62, 3: 0.64}
    (pair,) = compare_all({"a": left, "b": right}, images)
    needed = seeds_to_settle(list(left.values()), list(right.values()), 0.0, images)
    assert not pair.decided
    assert pair.more == (None if needed is None else needed - 3)
    (two,) = compare_all({"a": {1: 0.60, 2: 0.66, 9: 0.1}, "b": {1: 0.62, 2: 0.58}}, images)  # 9 is left out
    needed = seeds_to_settle([0.60, 0.66], [0.62, 0.58], 0.0, images)
    assert two.more == (None if needed is None else max(1, needed - 2))


def test_one_seed_says_nothing_of_how_many_more_and_a_decided_pair_needs_none():
    (lone,) = compare_all({"a": {1: 0.6}, "b": {1: 0.59}}, 100)
    assert lone.more is None
    assert lone.improvement == 1.0
    (equal,) = compare_all({"a": {1: 0.6}, "b": {1: 0.6}}, 100)
    assert (equal.improvement, equal.difference) == (0.5, 0.0)
    (decided,) = compare_all({"a": {1: 0.9, 2: 0.91}, "b": {1: 0.1, 2: 0.11}}, 10**6)
    assert decided.decided
    assert decided.more is None


def test_arms_of_unlike_length_need_more_than_the_shorter_one_has():
    left, right = {1: 0.60, 2: 0.66}, {5: 0.59, 6: 0.62, 7: 0.64}
    (pair,) = compare_all({"a": left, "b": right}, 10**6)
    needed = seeds_to_settle(list(left.values()), list(right.values()), 0.0, 10**6)
    assert needed is not None
    assert pair.more == needed - 2
    (lone,) = compare_all({"a": {1: 0.60}, "b": right}, 10**6)
    assert lone.more is None


def test_what_only_the_correction_leaves_open_needs_one_more():
    methods = {"a": dict(enumerate((0.64, 0.65, 0.66))), "b": dict(enumerate((0.61, 0.60, 0.62)))}
    (alone,) = compare_all(methods, 10**9)
    assert alone.decided
    noise = {f"n{k}": {10 * k + seed: value for seed, value in enumerate((0.1, 0.9))} for k in range(1, 9)}
    first = compare_all({**methods, **noise}, 10**9)[0]
    assert (first.left, first.right, first.decided) == ("a", "b", False)
    assert first.more == 1


def test_no_adjusted_p_value_is_above_one():
    assert holm([0.6, 0.7, math.nan]) == [1.0, 1.0, 1.0]


def test_decided_is_below_five_percent_after_the_correction():
    (pair,) = compare_all({"a": {1: 0.6, 2: 0.7}, "b": {1: 0.5, 2: 0.4}})
    for adjusted, expected in ((0.049, True), (0.05, False), (0.06, False), (math.nan, False)):
        assert replace(pair, adjusted=adjusted).decided is expected
