"""The commands of the command line, one file each.

A command is a function that returns the exit code. Its file imports nothing slow at the top, since `creditscope --help`
imports every file here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from shutil import get_terminal_size
from typing import Annotated, TypeVar

import typer

from creditscope.registry import Registry

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


def say(text: str) -> None:
    """Print to standard output; a closed pipe, as in `| head`, does not change the exit code."""
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def width() -> int:
    """The width of the terminal in columns: 80 without a terminal, at most 140."""
    return min(get_terminal_size((80, 24)).columns, 140)


def coloured() -> bool:
    """Whether standard output is a terminal with colours; NO_COLOR turns them off."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


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
