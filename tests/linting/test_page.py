from __future__ import annotations

from docs.generate import lint as lint_page


def test_the_page_lists_the_rules_that_the_code_has():
    assert lint_page.page() == lint_page.PATH.read_text(encoding="utf-8"), "run make docs"
