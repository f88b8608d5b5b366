"""The pages in a real browser: they say the verdict, answer to hand and keyboard, and ask the network for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.browser
WIDTHS = (1280, 390)
SERIOUS = ("serious", "critical")
AXE = Path(__file__).parents[2] / ".venv" / "node" / "node_modules" / "axe-core" / "axe.min.js"


@pytest.mark.parametrize("width", WIDTHS)
def test_an_audit_opens_and_says_its_verdict(opened, width):
    page = opened("audit.html", width).page
    assert page.locator(".verdict .word").inner_text().endswith("FAIL(D1+D2+D3)")
    assert page.locator("figure svg.marks").count() == page.locator("figure").count() == 8
    assert page.evaluate("document.documentElement.scrollWidth") <= width  # wide tables scroll, the page does not


@pytest.mark.parametrize("width", WIDTHS)
def test_a_study_shows_numbers_toggles_methods_and_sorts(opened, width):
    page = opened("study/index.html", width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    points = page.locator("#figure-stream .mark-symbol path")
    assert points.count() == 9

    page.locator("#figure-growth .mark-symbol path").nth(2).hover()  # the first block under backprop
    told = page.locator("#vg-tooltip-element").inner_text()
    assert "1.10" in told
    assert "bbb1" in told

    page.get_by_label("dfa", exact=True).uncheck()
    page.wait_for_timeout(100)
    assert points.count() == 6
    page.get_by_label("dfa", exact=True).check()
    page.wait_for_timeout(100)
    assert points.count() == 9
    page.get_by_label("dfa, frozen").check()  # a control is off at first
    page.wait_for_timeout(100)
    assert points.count() == 12

    growth = page.locator("#runs thead th", has_text="D1")
    column = "#runs tbody tr td:nth-child(7)"
    growth.get_by_role("button").click()
    assert growth.get_attribute("aria-sort") == "ascending"
    assert page.locator(column).all_inner_texts() == ["1.50", "▲ 7,000", "▲ 7,000", "▲ 7,000"]
    growth.get_by_role("button").click()
    assert growth.get_attribute("aria-sort") == "descending"
    assert page.locator(column).all_inner_texts() == ["▲ 7,000", "▲ 7,000", "▲ 7,000", "1.50"]


def test_margin_and_verdict_of_every_method_are_in_view_at_1280_pixels(opened):
    page = opened("study/index.html").page
    heads = page.locator("#methods thead th").all_inner_texts()
    assert heads[:5] == ["method", "accuracy", "frozen control", "margin (D3)", "verdict"]
    scroller = page.locator("#methods .scroll").bounding_box()
    for cell in page.locator("#methods tbody tr td:nth-child(5)").all():
        box = cell.bounding_box()
        assert box["x"] + box["width"] <= scroller["x"] + scroller["width"]
    page.locator("#methods .scroll").evaluate("part => { part.scrollLeft = part.scrollWidth; }")
    assert page.locator("#methods tbody th").first.bounding_box()["x"] >= scroller["x"]  # names stay in view


def test_a_name_in_the_table_opens_the_page_of_its_run(opened):
    page = opened("study/index.html").page
    page.locator("#runs").get_by_role("link", name="bp").click()
    page.locator("html[data-drawn]").wait_for(state="attached")
    assert page.locator(".verdict .word").inner_text().endswith("PASS")
    assert page.locator(".key").inner_text() == "run bbb1"


def test_a_hostile_name_and_note_are_text(opened):
    page = opened("audit.html").page
    assert "<script>alert(1)</script><img" in page.locator(".notes").inner_text()
    study = opened("study/index.html").page
    assert study.get_by_label("<script>alert(1)</script>").count() == 1
    study.locator("#figure-stream .mark-symbol path").last.hover()
    assert "<script>alert(1)</script>" in study.locator("#vg-tooltip-element").inner_text()


def test_findings_open_and_methods_toggle_from_the_keyboard(opened):
    page = opened("audit.html").page
    page.locator("#D1 summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#D1 .opened").is_visible()
    assert "Does not mean" in page.locator("#D1 .opened").inner_text()
    study = opened("study/index.html").page
    study.get_by_label("dfa", exact=True).focus()
    study.keyboard.press("Space")
    study.wait_for_timeout(100)
    assert study.locator("#figure-stream .mark-symbol path").count() == 6


def test_a_link_to_a_finding_opens_the_part_that_holds_it(opened):
    page = opened("audit.html").page
    assert not page.locator("#D4").is_visible()
    page.evaluate("location.hash = 'D4'")
    page.locator("#D4 .opened").wait_for()
    assert page.locator("#everything").get_attribute("open") is not None
    page.reload()  # the charts above are drawn after the first scroll
    page.locator("html[data-drawn]").wait_for(state="attached")
    place = "document.querySelector('#D4').getBoundingClientRect().y"
    page.wait_for_function(f"() => 0 <= {place} && {place} < innerHeight")


def test_dark_light_and_paper_have_their_own_colours(opened):
    ground = "getComputedStyle(document.body).backgroundColor"
    point = "getComputedStyle(document.querySelector('#figure-stream .mark-symbol path')).fill"
    light = opened("audit.html", color_scheme="light").page
    dark = opened("audit.html", color_scheme="dark").page
    for colour in (ground, point):
        assert light.evaluate(colour) != dark.evaluate(colour)
    ink = dark.evaluate("getComputedStyle(document.body).color")
    dark.emulate_media(media="print")
    assert dark.evaluate(ground) == "rgb(255, 255, 255)"
    assert dark.evaluate("getComputedStyle(document.body).color") != ink
    dark.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert dark.locator(".finding:not([open])").count() == 0


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["audit.html", "study/index.html"])
def test_no_serious_barrier_is_found(opened, name, width, scheme):
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make install-all")
    page = opened(name, width, color_scheme=scheme).page
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
    found = page.evaluate("axe.run({ preload: false }).then((result) => result.violations)")
    barriers = [(each["id"], each["nodes"][0]["html"][:200]) for each in found if each["impact"] in SERIOUS]
    assert barriers == []
