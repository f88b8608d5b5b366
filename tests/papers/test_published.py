"""The data file of a paper has one schema, and says in one line how a paper trained."""

from __future__ import annotations

import pytest
from tests.papers.made import MADE

from creditscope.errors import BadFile
from creditscope.papers.published import PublishedTraining, read_published


def test_the_data_file_comes_back_as_it_was_written(tmp_path):
    path = tmp_path / "published.json"
    path.write_text(MADE.published.model_dump_json(), encoding="utf-8")
    assert read_published(path) == MADE.published


@pytest.mark.parametrize(
    "text",
    [
        '{"about": "", "settings": {}, "figures": {"a": {"b": {"c": {"men": 0.3}}}}}',
        '{"about": "", "settings": {"a": {"epochs": "about 100"}}}',
        "no JSON",
    ],
)
def test_a_file_that_does_not_follow_the_schema_is_refused(tmp_path, text):
    path = tmp_path / "published.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BadFile, match="published.json does not follow its schema"):
        read_published(path)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"epochs": 100, "seeds": "3 seeds", "note": "a note"}, "100 epochs, 3 seeds; a note"),
        ({"epochs": 1}, "1 epoch"),
        ({"epochs": 0, "note": "a note"}, "0 epochs; a note"),
        ({"note": "a note"}, "a note"),
        ({}, ""),
    ],
)
def test_the_published_training_in_one_line(fields, text):
    assert PublishedTraining(**fields).text == text


def test_what_was_not_published_is_empty():
    assert MADE.published.training("other") == PublishedTraining()
    assert MADE.published.figure("speed", "bp", "other") is None
