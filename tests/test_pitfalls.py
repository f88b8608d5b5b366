"""Every page about a pitfall prints what it says: the wrong number and the right one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.generate import pitfalls

NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
HEADINGS = ("How it looks", "Why it misleads", "The right line", "How creditscope avoids it")


@pytest.fixture(params=pitfalls.pages(), ids=lambda path: path.stem)
def page(request: pytest.FixtureRequest) -> Path:
    return request.param


def numbers(text: str) -> list[float]:
    return [float(number) for number in NUMBER.findall(text)]


def test_the_pages_are_numbered_and_the_index_leads_to_each():
    index = (pitfalls.FOLDER / "index.md").read_text(encoding="utf-8")
    assert [path.name.partition("-")[0] for path in pitfalls.pages()] == [str(i) for i in range(1, 15)]
    for path in pitfalls.pages():
        assert f"]({path.name})" in index
    for target in re.findall(r"\]\(([^)]+)\)", index):
        assert (pitfalls.FOLDER / target).exists()


def test_a_page_has_the_wrong_line_the_reason_the_right_line_and_the_guard(page):
    text = page.read_text(encoding="utf-8")
    positions = [text.index(f"## {heading}\n") for heading in HEADINGS]
    assert positions == sorted(positions)
    assert len(pitfalls.blocks(text)) == 2


def test_the_lines_print_what_the_page_says(page):
    """Words exactly; numbers to within what another machine may round or train differently."""
    blocks = pitfalls.blocks(page.read_text(encoding="utf-8"))
    found = pitfalls.printed([code for code, _ in blocks])
    for (_, said), now in zip(blocks, found, strict=True):
        assert NUMBER.sub("#", now) == NUMBER.sub("#", said)
        assert numbers(now) == pytest.approx(numbers(said), rel=0.02, abs=0.03 if "Γ at layer" in said else 1e-3)


def test_the_wrong_number_is_not_the_right_one(page):
    (_, wrong), (_, right) = pitfalls.blocks(page.read_text(encoding="utf-8"))
    assert wrong != right
    assert wrong.strip()
    assert right.strip()


def test_a_page_is_filled_with_what_its_lines_print():
    text = "a\n```python\nx = 2\nprint(x)\n```\n```\n?\n```\nb\n```python\nprint(x + 1)\n```\n```\n?\n```\n"
    assert pitfalls.blocks(pitfalls.filled(text)) == [("x = 2\nprint(x)\n", "2\n"), ("print(x + 1)\n", "3\n")]
