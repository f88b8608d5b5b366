"""Comments that silence the linter: `# noqa` for every rule, `# noqa: CS001, CS002` for some."""

from __future__ import annotations

import io
import re
import tokenize

COMMENT = re.compile(r"#\s*noqa(?!\w)(?:\s*:\s*(?P<codes>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?", re.IGNORECASE)
CODE = re.compile(r"[A-Z]+[0-9]+", re.IGNORECASE)

Silenced = dict[int, frozenset[str] | None]


def silenced(text: str) -> Silenced:
    """The codes that are silenced on each line, or None for all of them; only comments count, not texts."""
    if "noqa" not in text.lower():
        return {}
    lines: Silenced = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        match = COMMENT.search(token.string) if token.type == tokenize.COMMENT else None
        if match is not None:
            codes = match["codes"]
            lines[token.start[0]] = frozenset(code.upper() for code in CODE.findall(codes)) if codes else None
    return lines


def is_silenced(code: str, first: int, last: int, lines: Silenced) -> bool:
    """Whether a comment on one of the lines of a place silences a rule there."""
    for line in range(first, last + 1):
        if line in lines:
            codes = lines[line]
            if codes is None or code in codes:
                return True
    return False
