"""Every reason fits a published row by name, and the batch size explains gradients only."""

from __future__ import annotations

import math

import pytest
from tests.creditscope_papers.hao2026.made import archive
from tests.papers.made import row, table

from creditscope.batch import PUBLISHED_BATCH
from creditscope.papers.reasons import likeliest_reason
from creditscope.papers.tables import comparison_table
from creditscope_papers.hao2026 import PAPER
from creditscope_papers.hao2026.experiments import LARGER

TABLES = [comparison_table(archive(budget=budget), name) for budget in PAPER.budgets for name in PAPER.names]


@pytest.mark.parametrize("reason", PAPER.reasons, ids=lambda reason: reason.text[:60])
def test_every_name_in_a_reason_is_that_of_a_published_row(reason):
    published = [
        (one.experiment, line.row, line.quantity)
        for one in TABLES
        for line in one.rows
        if line.published is not None and (not reason.budget or one.budget == reason.budget)
    ]
    fitting = [
        (experiment, name, quantity)
        for experiment, name, quantity in published
        if (not reason.experiments or experiment in reason.experiments)
        and (not reason.rows or name in reason.rows)
        and (not reason.quantities or quantity in reason.quantities)
    ]
    assert {one[0] for one in fitting} >= set(reason.experiments)
    assert {one[1] for one in fitting} >= set(reason.rows)
    assert {one[2] for one in fitting} >= set(reason.quantities)
    assert fitting


def reason(experiment: str, budget: str = "laptop", **fields) -> str:
    return likeliest_reason(PAPER, table(experiment=experiment, budget=budget), row(**fields))


@pytest.mark.parametrize(("times", "given"), [(8, True), (11, True), (13, False), (1 / 8, False)])
def test_a_gradient_that_is_off_by_the_ratio_of_two_batch_sizes_may_be_of_the_other(times, given):
    text = reason("wide", row="x", quantity="g_L", kind="scale", difference=math.log10(times))
    expected = "Ours is about 8 times too large: the published figure may have been measured at N = 1,024."
    assert text == (expected if given else "Not known.")


def test_only_a_figure_at_our_own_batch_may_be_of_the_other():
    at_larger = [
        line.quantity for one in TABLES for line in one.rows if line.published and line.published.images == LARGER
    ]
    assert at_larger
    assert not set(at_larger) & {name for one in PAPER.reasons if one.times_too_large for name in one.quantities}
    assert {one.times_too_large for one in PAPER.reasons} == {None, LARGER / PUBLISHED_BATCH}


def test_only_gradients_are_means_over_a_batch():
    text = reason("wide", row="x", quantity="h_L", kind="scale", difference=math.log10(8))
    assert text == "Not known."


def test_the_index_explains_cosines_and_no_scales():
    assert reason("penalty", row="dfa", quantity="deep_gamma").startswith("The published DFA trains a block")
    assert "index" not in reason("penalty", row="dfa", quantity="h_L")
    assert "index" not in reason("main_audit", row="dfa, index input", quantity="reported_gamma")


def test_the_learning_rate_explains_the_stream_of_runs_of_the_published_length_alone():
    fields = {"row": "dfa, index input", "quantity": "h_L", "epochs": 100}
    assert reason("main_audit", "paper", **fields).startswith("The published stream grows more slowly")
    assert reason("main_audit", **fields) == "Not known."
