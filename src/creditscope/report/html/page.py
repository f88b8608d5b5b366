"""Common parts of all pages: templates with escaping on, one style sheet, one script, and the chart library.

A page makes no request, and its content policy forbids any. The page of one audit contains the chart library; the
pages of a study share one copy in their folder.
"""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import platformdirs
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from creditscope import __version__
from creditscope.errors import BadFile, NoRoom
from creditscope.files import write_text
from creditscope.reading import read_text
from creditscope.report.charts.theme import DARK, LIGHT, SHAPES
from creditscope.terminal import printable

LIBRARY, STYLE, SCRIPT = "charts.js", "page.css", "page.js"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a page finds the files that it shares with others; without a folder it contains everything."""

    assets: str | None = None
    home: str = ""


def render(template: str, place: Place, **content: Any) -> str:
    """A page from its template."""
    own = {} if place.assets else {"style": Markup(style()), "script": Markup(script()), "library": Markup(library())}
    return _environment().get_template(template).render(place=place, version=__version__, **own, **content)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("creditscope.report.html"),
        autoescape=True,
        finalize=visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["as_json"] = as_json
    environment.filters["code"] = code
    environment.filters["breakable"] = breakable
    environment.globals["shapes"] = SHAPES
    return environment


def visible(value: Any) -> Any:
    """Text without control characters, those that turn the direction of writing included; our own markup stays."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def as_json(value: Any) -> Markup:
    """JSON that can stand inside a script element: no sign in it can end the element or begin another."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))


def code(text: str) -> Markup:
    """Text in which `words between backticks` are set as code; everything else is escaped."""
    parts = (escape(part) for part in printable(text).split("`"))
    return Markup("").join(Markup(f"<code>{part}</code>") if index % 2 else part for index, part in enumerate(parts))


def breakable(text: str, after: str = "+") -> Markup:
    """Text that may be broken before a bracket and after a sign, as in FAIL(D1:stream+D2)."""
    return Markup(str(escape(printable(text))).replace("(", "<wbr>(").replace(after, f"{after}<wbr>"))


def download(text: str) -> str:
    """A link that holds a whole JSON file."""
    return "data:application/json;base64," + base64.b64encode(text.encode()).decode()


@cache
def style() -> str:
    """The style sheet, with the colours of light, dark and paper."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in palette.variables().items()) for palette in (LIGHT, DARK)
    )
    schemes = f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    return schemes + _asset(STYLE)


@cache
def script() -> str:
    """What a page does besides drawing: legend, sorting, printing, copying."""
    return _asset(SCRIPT)


@cache
def library() -> str:
    """Vega, Vega-Lite and vega-embed as one script, as vl-convert carries them; nothing is fetched.

    Bundling takes two seconds, so the script is kept in the user's cache folder, beside its checksum.
    """
    folder = Path(platformdirs.user_cache_dir("creditscope", appauthor=False))
    kept = folder / f"charts-{version('vl-convert-python')}.js"
    with suppress(BadFile):
        digest, _, text = read_text(kept, "chart library").partition("\n")
        if digest == _digest(text):
            return text
    text = _bundled()
    with suppress(BadFile, NoRoom):  # a folder that cannot be written costs the two seconds again
        write_text(kept, f"{_digest(text)}\n{text}")
    return text


def _digest(text: str) -> str:
    return f"// {sha256(text.encode()).hexdigest()}"


def _bundled() -> str:
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.creditscopeDraw = vegaEmbed")
    closed = bundle.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    return f"(function () {{\n{closed}\n}})();\n"


def _asset(name: str) -> str:
    return files("creditscope.report.html").joinpath("assets", name).read_text(encoding="utf-8")
