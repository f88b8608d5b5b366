"""A reason is given for what differs, and the length of training wherever that differs too."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pytest
from tests.reproduction.made import book, line, sheet

from creditscope.reproduction.experiments import experiments
from creditscope.reproduction.experiments import sheet as read
from creditscope.reproduction.reasons import REASONS, reason


@pytest.mark.parametrize("entry", REASONS, ids=lambda entry: " ".join(entry[:3]))
def test_every_reason_is_for_a_published_line(entry):
    experiment, row, quantity, _ = entry
    found = [
        line
        for name in experiments
        if fnmatchcase(name, experiment)
        for line in read(name, book()).lines
        if fnmatchcase(line.row, row) and fnmatchcase(line.quantity, quantity) and line.published is not None
    ]
    assert found


def test_the_first_reason_that_matches_is_given():
    assert reason(sheet(), line(row="ep")).startswith("Ours relaxes all states")


def test_the_length_of_training_is_named_where_it_differs():
    assert reason(sheet(), line(row="fa")) == "Ours: 5 epochs; theirs: 100 epochs."
    same = sheet(ours="100 epochs, seed 42", theirs="100 epochs, 3 seeds")
    assert reason(same, line(row="fa")) == "Not known."
    assert "100 epochs" not in reason(same, line(row="ep"))


def test_the_length_of_training_explains_nothing_about_one_epoch():
    assert reason(sheet(), line(row="fa", kind="epoch")) == "Not known."
    assert reason(sheet(), line(row="fa", heading="deep Γ after epoch 1")) == "Not known."
