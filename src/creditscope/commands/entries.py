"""What is there to choose from?"""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from enum import StrEnum
from typing import Annotated, Any

import typer

from creditscope.commands import Plugins, command, say, width
from creditscope.registry import Registry


class Kind(StrEnum):
    """The five open registries; each is the mapping KIND in its package."""

    diagnostics = "diagnostics"
    networks = "networks"
    methods = "methods"
    datasets = "datasets"
    formats = "formats"

    @property
    def package(self) -> str:
        """The package that holds the entries."""
        return "creditscope.report.formats" if self is Kind.formats else f"creditscope.{self}"


@command("list")
def entries(
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
    plugin: Plugins = None,
) -> int:
    """List the diagnostics, networks, methods, datasets or report formats that there are, one line each."""
    found = {name: described(entry) for name, entry in registry(kind).items()}
    say(listed(found, width() if sys.stdout.isatty() else None))
    return 0


def listed(found: dict[str, str], columns: int | None) -> str:
    """Names and descriptions in two columns, one line each; wrapped only where a terminal is too narrow."""
    indent = 2 + max(map(len, found), default=0)
    lines = [name.ljust(indent) + text for name, text in found.items()]
    if columns is not None:
        lines = [textwrap.fill(line, columns, subsequent_indent=" " * indent) for line in lines]
    return "\n".join(lines)


def registry(kind: Kind) -> Registry[Any]:
    """The registry of that kind, imported when it is asked for: three of them need torch."""
    found: Registry[Any] = getattr(importlib.import_module(kind.package), kind)
    return found


def described(entry: Any) -> str:
    """An entry in one line: its title and question or suffixes, else the first line of its docstring."""
    if hasattr(entry, "question"):
        return f"{entry.title}: {entry.question}"
    if hasattr(entry, "suffixes"):
        return f"{entry.title} ({' '.join(entry.suffixes)})"
    return (inspect.getdoc(entry) or "").partition("\n")[0]
