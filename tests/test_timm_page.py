"""The page on the families of timm is that of the stored run."""

from __future__ import annotations

from docs.generate import timm

ROWS = timm.results()


def test_the_page_is_current() -> None:
    assert timm.PAGE.read_text(encoding="utf-8") == timm.page(ROWS), "run make docs"


def test_nine_in_ten_families_are_audited_without_a_hint_and_without_a_false_alarm() -> None:
    outcomes = [row["outcome"] for row in ROWS.values() if "outcome" in row]
    assert len(outcomes) >= 83
    assert outcomes.count("audited") >= 0.9 * len(outcomes)
