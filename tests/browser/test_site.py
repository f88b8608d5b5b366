"""The site in a real browser, from the file system: quiet, accessible, sortable, and without a dead link inside it."""

from __future__ import annotations

import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from tests.browser.test_pages import AXE, SERIOUS

pytestmark = [pytest.mark.slow, pytest.mark.browser]
ROOT = Path(__file__).parents[2]
KINDS = (  # one page of every kind
    "index",
    "gallery",
    "gallery-cards",
    "reproduction",
    "findings",
    "field",
    "explore",
    "what-it-looks-like",
    "methods/dfa",
    "diagnostics/D3",
    "reference/api",
)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole site; a warning, as of a link that leads nowhere, is an error."""
    pytest.importorskip("furo")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "-c", "docs"]
    built = subprocess.run(
        [*command, "-d", str(folder / "trees"), ".", str(folder / "html")], cwd=ROOT, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


class Anchors(HTMLParser):
    """Names and targets of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.targets: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.names.add(value or "")
            elif name in ("href", "src", "xlink:href") and tag != "use":
                self.targets.add(value or "")


def test_the_site_is_whole_and_refers_to_torch(site: Path) -> None:
    assert (site / "docs" / "index.html").exists()
    api = (site / "docs" / "reference" / "api.html").read_text(encoding="utf-8")
    assert 'href="https://docs.pytorch.org' in api
    assert ">How to cite</a>" in api


def test_every_link_inside_the_site_leads_to_a_file_and_a_name(site: Path) -> None:
    pages = {path: Anchors(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    dead = []
    for path, page in pages.items():
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            other = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            named = not parts.fragment or other not in pages or unquote(parts.fragment) in pages[other].names
            if not other.exists() or not named:
                dead.append(f"{path.relative_to(site)}: {target}")
    assert dead == []


class Quiet:
    """A page of the site, and whatever it says or asks for."""

    def __init__(self, browser: Any, path: Path, width: int, scheme: str) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())

    def close(self) -> None:
        """Nothing was said, and nothing was asked of a network."""
        assert self.complaints == []
        assert [request for request in self.requests if not request.startswith(("file:", "data:"))] == []
        self.page.close()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_pages_of_every_kind_have_no_barrier_and_no_error(site: Path, chromium: Any, width: int, scheme: str) -> None:
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: make install-all")
    found = {}
    for name in KINDS:
        opened = Quiet(chromium, site / "docs" / f"{name}.html", width, scheme)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, name
        opened.page.evaluate(AXE.read_text(encoding="utf-8") + "; undefined")
        raised = opened.page.evaluate("axe.run({ preload: false }).then((result) => result.violations)")
        found[name] = [(one["id"], one["nodes"][0]["html"][:200]) for one in raised if one["impact"] in SERIOUS]
        opened.close()
    assert {name: barriers for name, barriers in found.items() if barriers} == {}


def test_the_gallery_sorts_by_keyboard_and_filters(site: Path, chromium: Any) -> None:
    opened = Quiet(chromium, site / "docs" / "gallery.html", 1280, "light")
    page = opened.page
    head = page.locator("table.sortable thead th", has_text="margin")
    column = "table.sortable tbody tr:visible td:nth-child(8)"
    head.get_by_role("button").focus()
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "ascending"
    numbers = [float(text.split()[0]) for text in page.locator(column).all_inner_texts() if text != "-"]
    assert numbers == sorted(numbers)
    page.keyboard.press("Space")
    assert head.get_attribute("aria-sort") == "descending"
    texts = page.locator(column).all_inner_texts()
    assert float(texts[0].split()[0]) == max(numbers)
    assert texts == sorted(texts, key=lambda text: text == "-")  # rows without a margin stay last
    page.get_by_label("Show rows with").fill("dfa mnist1d")
    rows = page.locator("table.sortable tbody tr:visible")
    assert all("dfa" in text and "mnist1d" in text for text in rows.all_inner_texts())
    assert page.locator("#gallery-count").inner_text().startswith(f"{rows.count()} of ")
    rows.first.get_by_role("link").first.click()
    assert page.url.rpartition("/")[2].startswith("gallery-cards.html#dfa")
    opened.close()


def test_the_scale_moves_by_keyboard(site: Path, chromium: Any) -> None:
    opened = Quiet(chromium, site / "docs" / "explore.html", 390, "dark")
    slider = opened.page.get_by_role("slider")
    slider.focus()
    opened.page.keyboard.press("End")
    assert opened.page.locator("#explore-clamped").inner_text() == "0.000"
    assert opened.page.locator("#explore-exact").inner_text() == "1.000"
    assert "clamped Γ 0.000, exact Γ 1.000" in opened.page.locator("#explore-said").inner_text()
    opened.close()
