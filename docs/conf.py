"""The site: Sphinx over the Markdown pages of this folder. `make site` builds it without a network."""

from __future__ import annotations

import re
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

from creditscope import __version__  # noqa: E402  (the package of this clone, wherever Sphinx was started)

project = "creditscope"
author = "The creditscope authors"
copyright = f"{datetime.now(UTC).year}, {author}"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.intersphinx", "sphinx.ext.viewcode"]
source_suffix = {".md": "markdown"}
# The root of the clone is the source folder, so that a page may link a table under results/ by its relative path.
include_patterns = [
    "docs/**",
    "results/tables/*.md",
    "results/README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
exclude_patterns = ["docs/generate", "docs/examples"]
root_doc = "docs/index"

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "substitution"]

# The one place that knows where the repository is: Repository under [project.urls] of pyproject.toml. Without it there
# is nothing that Colab could open, and the page of the notebooks says so.
REPOSITORY = (
    tomllib.loads((HERE.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    .get("urls", {})
    .get("Repository", "")
)


def colab(notebook: str) -> str:
    """A link that opens a notebook of the repository in Colab; empty without a public repository on GitHub."""
    owner = re.fullmatch(r"https://github\.com/([\w.-]+/[\w.-]+?)/?", REPOSITORY)
    place = f"https://colab.research.google.com/github/{owner[1]}/blob/main/docs/notebooks" if owner else ""
    return f"[open in Colab]({place}/{notebook}.ipynb)" if place else ""


myst_substitutions = {
    "colab_audit": colab("audit-a-network-you-trained"),
    "colab_depth": colab("is-depth-used"),
    "colab_note": (
        "In Colab, install creditscope from the repository first."
        if REPOSITORY
        else "There is no link to Colab yet: it opens notebooks from a public address, and `project.urls` in"
        " `pyproject.toml` names no `Repository`."
    ),
}
myst_heading_anchors = 4

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": True}
python_use_unqualified_type_names = True
# The inventory is a file of ours (docs/generate/inventory.py), so that no build needs a network.
intersphinx_mapping = {"torch": ("https://docs.pytorch.org/docs/stable/", str(HERE / "inventories" / "torch.inv"))}

html_theme = "furo"
html_title = f"creditscope {__version__}"
html_static_path = ["_static"]
html_css_files = ["pictures.css"]
html_js_files = ["search-from-disk.js"]
html_additional_pages = {"index": "redirect.html"}
templates_path = ["_templates"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"footer_icons": [], "top_of_page_buttons": []}

ENTRY = re.compile(r"^(\S[^:]*?) {2,}(\S.*)$")


def as_definitions(lines: list[str]) -> list[str]:
    """A table of names in the house's docstrings (a name, two spaces, its meaning) as a definition list."""
    out: list[str] = []
    for line in lines:
        if match := ENTRY.match(line):
            out += [f"``{match[1]}``", f"    {match[2]}"]
        else:
            out.append(f"    {line.strip()}")
    return out


def process_docstring(app: object, what: str, name: str, entry: object, options: object, lines: list[str]) -> None:
    """Turn docstrings, which are written to be read in a terminal, into reStructuredText."""
    text: list[str] = []
    for paragraph in "\n".join(lines).split("\n\n"):
        block = paragraph.splitlines()
        if block and ENTRY.match(block[0]) and not block[0].startswith(">>>"):
            block = as_definitions(block)
        elif block and all(line.startswith("    ") for line in block):
            block = ["::", "", *block]
        text += [*block, ""]
    lines[:] = text


def reachable_by_keyboard(app: object, page: str, template: str, context: dict[str, Any], tree: object) -> None:
    """Let tables and code that scroll take the focus, and give the captions of the sidebar their level."""
    body = context.get("body", "").replace('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper')
    context["body"] = body.replace("<pre>", '<pre tabindex="0">')
    sidebar = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = sidebar.replace('role="heading"', 'role="heading" aria-level="2"')


def setup(app: Any) -> None:
    """Sphinx calls this."""
    app.connect("html-page-context", reachable_by_keyboard, priority=900)  # after the theme has made its sidebar
    app.connect("autodoc-process-docstring", process_docstring)
