"""Rules of the linter: one file and one decorator add one."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from creditscope.errors import InvalidInput
from creditscope.linting.source import SourceFile
from creditscope.registry import Registry

CODE = re.compile(r"[A-Z]+[0-9]+")
Place = ast.expr | ast.stmt
Find = Callable[[SourceFile], Iterator[Place]]


@dataclass(frozen=True, slots=True)
class LintRule:
    """One pitfall that shows in code.

    message   what was found, in one line
    why       what goes wrong with the result
    fix       what to write instead
    page      the file below docs/pitfalls that explains it
    wrong     a few lines in which the rule, and no other one, fires once
    right     the same lines as they should be; no rule fires
    find      the places in a file where the rule fires
    """

    code: str
    title: str
    message: str
    why: str
    fix: str
    page: str
    wrong: str
    right: str
    find: Find

    @property
    def summary(self) -> str:
        """The title, as `creditscope list` shows it."""
        return self.title

    @property
    def link(self) -> str:
        """The page of the pitfall, from the root of the repository."""
        return f"docs/pitfalls/{self.page}"


lint_rules: Registry[LintRule] = Registry("lint rule", __name__)


def lint_rule(
    code: str, *, title: str, message: str, why: str, fix: str, page: str, wrong: str, right: str
) -> Callable[[Find], Find]:
    """Register a function SourceFile -> places as the rule `code`."""
    if not CODE.fullmatch(code):
        raise InvalidInput(
            f"A lint rule cannot have the code {code!r}.\n"
            "A comment `# noqa` could not name it. Use capital letters and a number, such as CS001."
        )

    def enter(find: Find) -> Find:
        lint_rules.add(code, LintRule(code, title, message, why, fix, page, wrong, right, find))
        return find

    return enter
