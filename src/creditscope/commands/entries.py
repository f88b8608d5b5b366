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
    """The four open registries; each is `creditscope.KIND.KIND`."""

    diagnostics = "diagnostics"
    networks = "networks"
    methods = "methods"
    datasets = "datasets"


@command("list")
def entries(
    kind: Annotated[Kind, typer.Argument(help="What to list.", show_default=False)],
    plugin: Plugins = None,
) -> int:
    """List the diagnostics, networks, methods or datasets that there are, one line each."""
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
    found: Registry[Any] = getattr(importlib.import_module(f"creditscope.{kind}"), kind)
    return found


def described(entry: Any) -> str:
    """An entry in one line: a diagnostic's title and question, else the first line of its docstring."""
    if hasattr(entry, "question"):
        return f"{entry.title}: {entry.question}"
    return (inspect.getdoc(entry) or "").partition("\n")[0]
