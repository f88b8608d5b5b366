"""docs/rejudged.md is what the committed records give under both protocols."""

from __future__ import annotations

import pytest
from docs.generate import rejudged as pages


@pytest.fixture(scope="module")
def data():
    return pages.rejudged()


def test_the_page_is_current(data):
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(data), "run make docs"


def test_every_record_is_judged_once_under_each_protocol(data):
    keys = [old.key for _, old, _ in data.runs()]
    assert sorted(keys) == sorted(data.records)
    assert all(old.key == new.key for _, old, new in data.runs())


def test_no_stored_verdict_changes_under_the_protocol_that_it_names(data):
    assert pages.unchanged(data.records) == len(data.records) == 186


def test_every_changed_verdict_has_a_reason(data):
    assert all(pages._reason(old, new) for _, old, new in data.runs())


def test_what_a_record_does_not_hold_rules_nothing_out(data):
    assert pages.absent(data) == ["D1:stream", "D2:tail", "D11"]
    assert not any(new.verdict.outcome == "pass" for _, _, new in data.runs())
