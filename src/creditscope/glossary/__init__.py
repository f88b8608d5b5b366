"""Glossary: the words and symbols of an audit's pages (terms.toml), and `explain`, which explains one of them."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One entry of the glossary.

    aliases  other spellings under which it is found, such as "gamma" for Γ
    see      related words of the glossary, or codes of diagnostics
    """

    word: str
    group: str
    meaning: str
    formula: str = ""
    aliases: tuple[str, ...] = ()
    see: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def terms() -> tuple[Term, ...]:
    """Every entry, in reading order."""
    entries = tomllib.loads((files(__package__) / "terms.toml").read_text(encoding="utf-8"))["term"]
    return tuple(
        Term(**{**entry, **{key: tuple(entry.get(key, ())) for key in ("aliases", "see")}}) for entry in entries
    )


def by_group() -> Mapping[str, list[Term]]:
    """The entries under the headings of their groups."""
    groups: dict[str, list[Term]] = {}
    for term in terms():
        groups.setdefault(term.group, []).append(term)
    return groups


def term_named(word: str) -> Term | None:
    """The entry with this word or alias; where none is spelled exactly so, capitals do not matter."""
    for spelling in (str, str.casefold):
        for term in terms():
            if spelling(word) in map(spelling, (term.word, *term.aliases)):
                return term
    return None
