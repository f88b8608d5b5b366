"""The command `explain`."""

from __future__ import annotations

from typing import Annotated

import typer

from creditscope.commands import Plugins, coloured, command, say, width
from creditscope.terminal import paint


@command("explain")
def explain(
    word: Annotated[
        str,
        typer.Argument(
            metavar="[WORD]",
            help="A diagnostic (D2), a word or symbol of a page (Γ), a lint rule (CS001), a method (dfa).",
        ),
    ] = "",
    plugin: Plugins = None,
) -> int:
    """Explain a diagnostic, a lint rule, or any word or symbol of a page; without WORD, list what can be explained."""
    from creditscope.glossary.explanation import explanation, listing

    bold = (lambda text: paint(text, "bold")) if coloured() else str
    say(explanation(word).text(width(), bold) if word else listing(width()), painted=True)
    return 0
