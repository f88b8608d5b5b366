"""The commands of the command line, one file each.

A command is a function that returns the exit code. Its file imports nothing slow at the top, since `creditscope --help`
imports every file here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, TypeVar

import typer

from creditscope.registry import Registry
from creditscope.terminal import coloured as coloured
from creditscope.terminal import say as say
from creditscope.terminal import width as width

Command = Callable[..., int]
C = TypeVar("C", bound=Command)

commands: Registry[Command] = Registry("command", __name__)
groups: dict[str, str] = {}


def command(name: str) -> Callable[[C], C]:
    """Register a function with typer annotations as the command `name`; its docstring is its help."""

    def enter(function: C) -> C:
        commands.add(name, function)
        return function

    return enter


def group(name: str, help_text: str) -> None:
    """Declare a group of commands, "study" for "study run" and its kin, with its help text."""
    groups[name] = help_text


def load_plugins(names: list[str] | None) -> list[str]:
    """Import the modules given with --plugin."""
    from creditscope.plugins import load_plugin

    for name in names or []:
        load_plugin(name)
    return names or []


Plugins = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin",
        metavar="MODULE",
        help="Import MODULE, which registers your own networks, methods, datasets or diagnostics. Repeatable.",
        callback=load_plugins,
        is_eager=True,
        show_default=False,
    ),
]
TrustPlugins = Annotated[
    bool,
    typer.Option("--trust-plugins", help="Import the modules that the file names; it can then run any code."),
]
