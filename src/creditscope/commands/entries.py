"""The command `list`: the entries of every registry."""

from __future__ import annotations

import importlib
import sys
import textwrap
from enum import StrEnum
from typing import Annotated, Any

import typer

from creditscope.commands import Plugins, command, parsing, say, width
from creditscope.registry import Registry


class Kind(StrEnum):
    """The open registries."""

    diagnostics = "diagnostics"
    networks = "networks"
    methods = "methods"
    datasets = "datasets"
    formats = "formats"
    rules = "rules"


ELSEWHERE = {  # registries that are not named after their package: where they are, and their names
    Kind.formats: ("creditscope.report.formats", "formats"),
    Kind.rules: ("creditscope.linting.rules", "lint_rules"),
}
NEED_TORCH = (Kind.networks, Kind.methods, Kind.datasets)  # their files import it: listed from their decorators


@command("list")
def entries(
    kind: Annotated[str, typer.Argument(metavar="|".join(Kind), help="What to list.", show_default=False)],
    plugin: Plugins = None,
) -> int:
    """List all diagnostics, networks, methods, datasets, report formats or lint rules, one per line."""
    chosen = Kind(parsing.choice("kind of entry", kind, list(Kind)))
    known = registry(chosen)
    light = chosen not in NEED_TORCH
    summaries = {name: entry.summary for name, entry in known.items()} if light else known.summaries()
    say(listed(summaries, width() if sys.stdout.isatty() else None))
    return 0


def listed(summaries: dict[str, str], columns: int | None) -> str:
    """Names and summaries in two columns, one entry per line; wrapped only where a terminal is too narrow."""
    indent = 2 + max(map(len, summaries), default=0)
    lines = [name.ljust(indent) + text for name, text in summaries.items()]
    if columns is not None:
        lines = [textwrap.fill(line, columns, subsequent_indent=" " * indent) for line in lines]
    return "\n".join(lines)


def registry(kind: Kind) -> Registry[Any]:
    """The registry of that kind, imported when it is asked for."""
    _, name = ELSEWHERE.get(kind, ("", str(kind)))
    entries: Registry[Any] = getattr(importlib.import_module(package(kind)), name)
    return entries


def package(kind: Kind) -> str:
    """The package that holds the registry and its entries."""
    return ELSEWHERE[kind][0] if kind in ELSEWHERE else f"creditscope.{kind}"
