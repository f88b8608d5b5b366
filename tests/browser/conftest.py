"""Debian's chromium, the pages of a small study, and a watch over everything that a page says or asks for."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.report.made_runs import audited, row, run

from creditscope.report.html.study import write_study
from creditscope.report.study_views import judged_views

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """One browser for all tests of a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """study/ with two methods, a hostile one and a control, and audit.html."""
    folder = tmp_path_factory.mktemp("pages")
    records = [run("dfa", 1, key="aaa1"), run("bp", 1, healthy=True, key="bbb1"), run(HOSTILE, 1, key="ccc1")]
    rows = [row(str(record.spec["method"]), [record]) for record in records]
    twin = run("dfa", 1, key="ddd1")
    records.append(twin.model_copy(update={"spec": twin.spec | {"control": "frozen"}}))
    views = judged_views({record.key: record for record in records}, rows, "three")
    write_study(folder / "study", views, title="A study", rows=rows)
    audited(notes=f"{HOSTILE}<img src=x onerror=alert(1)>").to_html(folder / "audit.html")
    return folder


class Watched:
    """A page, and whatever went wrong on it."""

    def __init__(self, browser: Any, path: Path, width: int, **context: Any) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 900}, **context)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.locator("html[data-drawn]").wait_for(state="attached")

    def check(self) -> None:
        """Nothing was said and nothing was asked of a network."""
        assert self.complaints == []
        assert all(request.startswith("file:") for request in self.requests)


@pytest.fixture
def opened(chromium: Any, pages: Path) -> Iterator[Callable[..., Watched]]:
    """Open a page once its charts are drawn; in the end every one of them must have been quiet."""
    watched: list[Watched] = []

    def open_page(name: str, width: int = 1280, **context: Any) -> Watched:
        watched.append(Watched(chromium, pages / name, width, **context))
        return watched[-1]

    yield open_page
    for each in watched:
        each.check()
        each.page.close()
