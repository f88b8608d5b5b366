"""What does a diagnostic ask, where does it fire and why, and what follows from it?"""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from creditscope.commands import Plugins, coloured, command, say, width

if TYPE_CHECKING:
    from creditscope.diagnostics import Diagnostic

UNITS = {"decades": "", "points": " percentage points", "absolute": ""}


@command("explain")
def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A diagnostic, for example D2.")],
    plugin: Plugins = None,
) -> int:
    """Explain a diagnostic: question, formula, limit, why it sits there, what it means and what to do."""
    from creditscope.diagnostics import diagnostics

    wanted = {name.lower(): name for name in diagnostics}.get(code.lower(), code)
    say(explanation(diagnostics[wanted], width(), colour=coloured()))
    return 0


def explanation(entry: Diagnostic, columns: int = 80, colour: bool = False) -> str:
    """The page of one diagnostic for the terminal."""
    bold = (lambda text: f"\x1b[1m{text}\x1b[0m") if colour else (lambda text: text)
    lines = [bold(f"{entry.name}  {entry.title}"), *textwrap.wrap(capitalised(entry.question), columns)]
    for heading, text in sections(entry).items():
        lines += ["", bold(heading)]
        for line in text.splitlines():
            lead = "  " + " " * (len(line) - len(line.lstrip()))
            lines += textwrap.wrap(
                line, columns, initial_indent="  ", subsequent_indent=lead, break_on_hyphens=False
            ) or [""]
    return "\n".join(lines)


def sections(entry: Diagnostic) -> dict[str, str]:
    """Everything there is to say about a diagnostic, by heading."""
    limit = entry.limit
    return {
        "Formula": entry.formula,
        "Raised if": f"the value is {limit.fires} {limit.at:g}{UNITS[limit.unit]}.",
        "Why there": capitalised(limit.because).rstrip(".") + ".",
        "Means": entry.means,
        "Does not mean": entry.does_not_mean,
        "Do": entry.do,
        "Counts in": "\n".join(roles(entry)),
    }


def roles(entry: Diagnostic) -> list[str]:
    """In which failure mode of which protocol a diagnostic counts, one line per protocol."""
    from creditscope.protocols import PROTOCOLS

    lines = []
    for protocol in PROTOCOLS.values():
        if protocol.variants.get(entry.code, "") != entry.variant:
            continue
        modes = [mode for mode in protocol.modes if entry.code in mode.requires]
        for mode in modes:
            others = " and ".join(code for code in protocol.codes if code in mode.requires and code != entry.code)
            cause = mode.requires[entry.code]
            together = f", together with {others}" if others else ""
            only = f", if its cause is `{cause}`" if cause else ""
            lines.append(f"protocol {protocol.name}: {mode.name}{together}{only}")
        if not modes:
            lines.append(f"protocol {protocol.name}: advisory, it fails no network")
    return lines


def capitalised(text: str) -> str:
    """The text with a capital first letter and everything else as it is."""
    return text[:1].upper() + text[1:]
