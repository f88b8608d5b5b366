"""Takes the pictures of the README from the pages of the demonstration: `make pictures`.

python docs/pictures.py FOLDER   where FOLDER is the report folder that `creditscope demo` wrote
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
WIDE, HIGH = 1180, 1120


def main() -> None:
    """One picture of the study's page, one of the page of DFA."""
    folder = Path(sys.argv[1]).resolve()
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": WIDE, "height": HIGH}, color_scheme="light", device_scale_factor=1.5)
        opened(page, (folder / "index.html").as_uri())
        taken(page, "study.png")
        link = page.locator("#runs").get_by_role("link", name="dfa", exact=True).first
        opened(page, str(link.evaluate("link => link.href")))
        taken(page, "audit.png")
        browser.close()


def opened(page: Page, place: str) -> None:
    """Go to a page and wait until its charts are drawn."""
    page.goto(place)
    page.locator("html[data-drawn]").wait_for(state="attached")


def taken(page: Page, name: str) -> None:
    """A picture of what a reader sees first, in as few colours as it needs."""
    from PIL import Image

    path = IMAGES / name
    page.screenshot(path=path)
    Image.open(path).convert("RGB").quantize(128).save(path, optimize=True)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
