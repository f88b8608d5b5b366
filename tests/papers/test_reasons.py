"""A reason is given for what differs, and the length of training wherever that differs too."""

from __future__ import annotations

import math

import pytest
from tests.papers.made import MADE, row, table

from creditscope.errors import BadFile
from creditscope.papers.reasons import DifferenceReason, likeliest_reason, read_reasons


def reason(made, **fields) -> str:
    return likeliest_reason(MADE, made, row(**fields))


def test_the_first_reason_that_names_the_row_is_given():
    assert reason(table(), row="bp") == "First."
    assert reason(table(experiment="size"), row="bp") == "Second."
    assert reason(table(), row="bp, frozen") == "Not known."  # names are compared whole


def test_a_reason_may_be_for_one_budget_alone():
    assert reason(table(budget="paper"), row="bp") == "Only as published."


@pytest.mark.parametrize(
    ("times", "text"), [(2, "Twice. First."), (1.4, "Twice. First."), (3.1, "First."), (0.5, "First.")]
)
def test_a_reason_may_be_for_differences_of_one_size_and_is_given_in_addition(times, text):
    assert reason(table(), row="bp", quantity="growth", kind="scale", difference=math.log10(times)) == text
    assert reason(table(), row="bp", difference=math.log10(times)) == "First."


def test_reasons_are_read_from_a_file_of_one_schema(tmp_path):
    path = tmp_path / "reasons.json"
    path.write_text('[{"text": "Because.", "rows": ["bp"]}]', encoding="utf-8")
    assert read_reasons(path) == (DifferenceReason(text="Because.", rows=("bp",)),)
    path.write_text('[{"text": "Because.", "row": "bp"}]', encoding="utf-8")
    with pytest.raises(BadFile, match="reasons.json does not follow its schema"):
        read_reasons(path)


def test_the_length_of_training_is_named_where_it_differs():
    assert reason(table(), epochs=5) == "Ours: 5 epochs; theirs: 10 epochs."
    assert reason(table(), row="bp", epochs=1) == "First. Ours: 1 epoch; theirs: 10 epochs."
    assert reason(table(), epochs=10) == "Not known."
    assert reason(table()) == "Not known."  # runs of several lengths
    assert reason(table(experiment="other"), epochs=5) == "Not known."  # theirs is not stated


def test_the_length_of_training_explains_nothing_about_the_first_epochs():
    assert reason(table(), kind="epoch", values=(1.0, 6.0), epochs=30) == "Not known."
    assert reason(table(), early=True, epochs=5) == "Not known."


@pytest.mark.parametrize("values", [(1.0, 7.0), (math.inf,), ()])
def test_a_shorter_schedule_may_explain_what_came_late_or_not_at_all(values):
    assert reason(table(), kind="epoch", values=values, epochs=30).startswith("Ours: 30 epochs")
