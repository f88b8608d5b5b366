"""The site: its generated pages are current; tests/browser/test_site.py builds and opens it."""

from __future__ import annotations

import json

import pytest
from docs import measure_scale
from docs.generate import api, explore, front, inventory, links

import creditscope
from creditscope.runs.run import train


def test_the_api_page_lists_every_public_name_and_is_current() -> None:
    assert api.PATH.read_text(encoding="utf-8") == api.page(), "run make docs"
    for name in creditscope.__all__:
        if name != "__version__":
            assert f".{name}\n" in api.page(), name


def test_the_inventory_of_torch_is_current() -> None:
    assert inventory.PATH.read_bytes() == inventory.inventory(), "run make docs"


def test_the_front_page_says_what_the_records_say() -> None:
    assert front.PAGE.read_text(encoding="utf-8") == front.page(), "run make docs"
    assert front.README.read_text(encoding="utf-8") == front.readme(), "run make docs"


def test_addresses_outside_the_site_are_listed_and_have_their_form() -> None:
    assert links.PATH.read_text(encoding="utf-8") == links.text(), "run make docs"
    assert [address for address in links.addresses() if not links.FORM.fullmatch(address)] == []


def test_the_page_with_the_scale_to_drag_is_that_of_the_measured_grid() -> None:
    result = json.loads(explore.RESULT.read_text(encoding="utf-8"))
    assert explore.PATH.read_text(encoding="utf-8") == explore.page(result), "run make docs"
    rows = result["rows"]
    assert len({row["accuracy"] for row in rows}) == 1
    assert max(row["sensitivity"] for row in rows) < 1.001 * min(row["sensitivity"] for row in rows)
    assert all(row["exact"] == pytest.approx(1.0) for row in rows)
    assert rows[-1]["clamped"] < 1e-5 < 0.99 < rows[0]["clamped"]


@pytest.mark.slow
def test_the_measured_grid_is_what_the_real_network_gives() -> None:
    checkpoint = train(measure_scale.SPEC)
    result = json.loads(explore.RESULT.read_text(encoding="utf-8"))
    for exponent in (0.0, 5.0, 10.0):
        row = result["rows"][result["exponents"].index(exponent)]
        assert measure_scale.measured(checkpoint, 10**exponent) == pytest.approx(row, rel=1e-3)
