from __future__ import annotations

from docs.generate import lint as lint_page


def test_the_page_lists_the_rules_that_the_code_has():
    assert lint_page.page() == lint_page.PATH.read_text(encoding="utf-8"), "run make docs"


def test_every_alarm_on_other_peoples_code_was_read_and_few_are_false():
    table = [
        [cell.strip() for cell in row.strip("|").split("|")] for row in lint_page.counts().splitlines() if "|" in row
    ]
    rows = {row[0].split()[0]: dict(zip(table[0], row, strict=True)) for row in table[2:]}
    assert {"timm", "transformers", "lightning"} <= rows.keys()
    for row in rows.values():
        assert row["not read"] == "0"
        assert float(row["false per 50,000 lines"]) <= 1
        assert int(row["alarms"]) == int(row["true"]) + int(row["false"])
