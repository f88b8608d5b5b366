"""Writes docs/outside-links.txt: every address outside of the site that a page names, with its pages.

The site is built and tested without a network, so nobody asks whether these answer. They stand in one place, and a test
checks their form.
"""

from __future__ import annotations

import re
from pathlib import Path

from creditscope.files import write_text

ROOT = Path(__file__).resolve().parents[2]
PATH = ROOT / "docs" / "outside-links.txt"
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "CITATION.cff", "results/README.md")
ADDRESS = re.compile(r"\bhttps?://[^\s<>\"'`)\]}|\\]+")
FORM = re.compile(r"https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[\w./~%#?=&+@:-]*)?")
MADE_UP = ("https://x.org", "https://...")  # in examples


def addresses() -> dict[str, list[str]]:
    """Every address with the pages that name it; what stands for any address in an example is left out."""
    paths = [ROOT / page for page in PAGES]
    paths += sorted(path for kind in ("md", "ipynb", "html") for path in (ROOT / "docs").rglob(f"*.{kind}"))
    found: dict[str, list[str]] = {}
    for path in paths:
        for address in ADDRESS.findall(path.read_text(encoding="utf-8")):
            plain = address.rstrip(".,;:")
            if plain not in ("https:", "https://") and not plain.startswith(MADE_UP):
                pages = found.setdefault(plain, [])
                name = path.relative_to(ROOT).as_posix()
                pages += [name] if name not in pages else []
    return dict(sorted(found.items()))


def text() -> str:
    """One address a line, then its pages."""
    return "".join(f"{address}  {' '.join(pages)}\n" for address, pages in addresses().items())


if __name__ == "__main__":
    print(write_text(PATH, text()).relative_to(ROOT))
