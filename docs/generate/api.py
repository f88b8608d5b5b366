"""Writes docs/reference/api.md: the public names in the order of the package's own page."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import creditscope
import creditscope.testing
from creditscope.files import write_text

PATH = Path(__file__).resolve().parents[1] / "reference" / "api.md"
INTRODUCTION = """# Python API

Unless said otherwise, everything below is imported from `creditscope` itself. What a docstring shows as an example is
run by the tests.
"""


def page() -> str:
    """One directive per public name; the published names stand apart."""
    parts = [INTRODUCTION]
    for heading, names in (("Own names", creditscope._PUBLIC), ("Published names", creditscope._PUBLISHED)):
        parts += [f"## {heading}\n", *(_directive(getattr(creditscope, name)) for name in names)]
    tests = (getattr(creditscope.testing, name) for name in creditscope.testing.__all__)
    parts += ["## For tests\n", "These are imported from `creditscope.testing`.\n", *map(_directive, tests)]
    return "\n".join(parts).rstrip() + "\n"


def _directive(entry: Any) -> str:
    kind = "autoclass" if inspect.isclass(entry) else "autofunction"
    return f"```{{eval-rst}}\n.. {kind}:: {entry.__module__}.{entry.__qualname__}\n```\n"


if __name__ == "__main__":
    print(write_text(PATH, page()))
