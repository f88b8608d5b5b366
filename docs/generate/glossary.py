"""Writes docs/glossary.md from the table behind `creditscope explain`."""

from __future__ import annotations

import re
from pathlib import Path

from creditscope.diagnostics import diagnostics
from creditscope.files import write_text
from creditscope.glossary import Term, by_group, terms

PATH = Path(__file__).resolve().parents[1] / "glossary.md"
INTRODUCTION = """# Glossary

The words and symbols on the pages of an audit. `creditscope explain WORD` prints the same. The page is written by
`make docs` from `src/creditscope/glossary/terms.toml`. For the diagnostics see [their pages](diagnostics/index.md).
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for group, entries in by_group().items():
        parts += [f"## {group}\n", *map(_entry, entries)]
    return "\n".join(parts).rstrip() + "\n"


def _entry(term: Term) -> str:
    parts = [f'<a id="{_anchor(term.word)}"></a>\n\n**{term.word}**. {term.meaning}\n']
    if term.formula:
        parts.append(f"```\n{term.formula}\n```\n")
    if term.aliases:
        parts.append(f"Also: {', '.join(f'`{alias}`' for alias in term.aliases)}.\n")
    if term.see:
        parts.append(f"See {', '.join(map(_link, term.see))}.\n")
    return "\n".join(parts)


def _link(word: str) -> str:
    if word in diagnostics:
        return f"[{word}](diagnostics/{diagnostics[word].code}.md)"
    return f'<a href="#{_anchor(word)}">{word}</a>'


def _anchor(word: str) -> str:
    """A name of plain letters for a link; words without any are numbered."""
    plain = re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")
    return f"term-{plain or [term.word for term in terms()].index(word)}-{'upper' if word.isupper() else 'lower'}"


if __name__ == "__main__":
    print(write_text(PATH, page()))
