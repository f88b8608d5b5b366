"""A reason is given for what differs, and the length of training wherever that differs too."""

from __future__ import annotations

import math
from fnmatch import fnmatchcase

import pytest
from tests.papers.made import book, line, sheet

from creditscope.papers.experiments import experiments
from creditscope.papers.experiments import sheet as read
from creditscope.papers.published import Figure
from creditscope.papers.reasons import REASONS, reason


@pytest.mark.parametrize("entry", REASONS, ids=lambda entry: " ".join(entry[:3]))
def test_every_reason_is_for_a_published_line(entry):
    experiment, row, quantity, _ = entry
    found = [
        line
        for name in experiments
        for one in (read(name, book()), read(name, book(budget="paper")))
        if fnmatchcase(name, experiment) or one.stem == experiment
        for line in one.lines
        if fnmatchcase(line.row, row) and fnmatchcase(line.quantity, quantity) and line.published is not None
    ]
    assert found


def test_the_first_reason_that_matches_is_given():
    assert reason(sheet(), line(row="ep")).startswith("Ours relaxes all states")


def test_the_length_of_training_is_named_where_it_differs():
    assert reason(sheet(), line(row="fa", epochs=5)) == "Ours: 5 epochs; theirs: 100 epochs."
    assert reason(sheet(), line(row="fa", epochs=100)) == "Not known."
    assert reason(sheet(), line(row="fa")) == "Not known."  # runs of several lengths
    assert reason(sheet(experiment="decision_utility"), line(row="x", epochs=5)).startswith("The count follows")
    assert "epochs" not in reason(sheet(), line(row="ep", epochs=100))


def test_the_length_of_training_explains_nothing_about_the_first_epochs():
    assert reason(sheet(), line(row="fa", kind="epoch", values=(1.0, 6.0), epochs=30)) == "Not known."
    assert reason(sheet(), line(row="fa", heading="deep Γ after epoch 1", epochs=5)) == "Not known."
    assert reason(sheet(), line(row="fa", heading="Γ at layer 0, last valid epoch", epochs=5)) == "Not known."


@pytest.mark.parametrize("values", [(1.0, 7.0), (math.inf,), ()])
def test_a_shorter_schedule_may_explain_what_came_late_or_not_at_all(values):
    assert reason(sheet(), line(row="fa", kind="epoch", values=values, epochs=30)).startswith("Ours: 30 epochs")


@pytest.mark.parametrize(
    ("images", "decades", "told"),
    [
        (
            128,
            math.log10(8),
            "Ours is about 8 times too large: perhaps the published figure was measured at N = 1,024.",
        ),
        (128, math.log10(11), "Ours is about 8 times too large"),
        (128, math.log10(13), ""),
        (128, -math.log10(8), ""),
        (1024, -math.log10(8), ""),
        (1024, math.log10(8), ""),
        (1024, -math.log10(5), ""),
    ],
)
def test_a_gradient_that_is_off_by_the_ratio_of_two_batch_sizes_is_told(images, decades, told):
    one = line(row="x", quantity="g_L_1", kind="scale", difference=decades, published=Figure(mean=1e-6, images=images))
    found = reason(sheet(ours="100 epochs", theirs="100 epochs"), one)
    assert (told in found) if told else (found == "Not known.")


def test_only_gradients_are_means_over_a_batch():
    one = line(row="x", quantity="h_L", kind="scale", difference=math.log10(8), published=Figure(mean=1.0))
    assert "N =" not in reason(sheet(), one)


def test_the_state_a_block_hears_explains_cosines_and_no_scales():
    assert reason(sheet(experiment="penalty"), line(row="dfa", quantity="deep_gamma")).startswith("The published DFA")
    assert "hear" not in reason(sheet(experiment="penalty"), line(row="dfa", quantity="h_L"))


def test_a_reason_may_be_for_runs_of_the_published_length_alone():
    one = line(row="dfa, index input", quantity="h_L", epochs=100)
    assert reason(sheet(experiment="main_audit", budget="paper"), one).startswith(
        "The published stream grows more slow"
    )
    assert reason(sheet(experiment="main_audit"), one) == "Not known."
