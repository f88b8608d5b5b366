"""All rules over all files below some paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from creditscope.linting.reading import LintedFile, NotPython, files_below, read
from creditscope.linting.rules import lint_rules
from creditscope.linting.suppressions import is_silenced, silenced

CLEAN, FINDINGS, NOT_LINTED = 0, 1, 2  # exit codes


@dataclass(frozen=True, slots=True)
class LintFinding:
    """One place where a rule fires; of a notebook the line is that of the cell."""

    code: str
    path: Path
    line: int
    column: int
    end_line: int
    cell: int | None = None

    @property
    def message(self) -> str:
        """What was found, in the words of the rule."""
        return lint_rules[self.code].message


@dataclass(frozen=True, slots=True)
class NotLinted:
    """A file that is not Python, with the reason."""

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class LintReport:
    """What the linter found, and over how much code."""

    findings: tuple[LintFinding, ...]
    not_linted: tuple[NotLinted, ...]
    files: int
    lines: int

    @property
    def exit_code(self) -> int:
        """1 with findings; else 2 where a file could not be linted, 0 where all are clean."""
        if self.findings:
            return FINDINGS
        return NOT_LINTED if self.not_linted else CLEAN


def lint(paths: Sequence[Path]) -> LintReport:
    """Lint files and all Python files and notebooks below folders; a path that does not exist is an error."""
    findings: list[LintFinding] = []
    not_linted: list[NotLinted] = []
    files = lines = 0
    for path in files_below(paths):
        try:
            document = read(path)
            findings += lint_document(document)
        except NotPython as error:
            not_linted.append(NotLinted(path, str(error)))
        except RecursionError:  # of a rule, in an expression that the parser could still hold
            not_linted.append(NotLinted(path, "nested too deeply"))
        else:
            files, lines = files + 1, lines + document.lines
    return LintReport(tuple(findings), tuple(not_linted), files, lines)


def lint_document(document: LintedFile) -> list[LintFinding]:
    """The findings of one file in the order of its lines, without those that a comment silences."""
    places = [(code, place) for code, rule in lint_rules.items() for place in rule.find(document.source)]
    quiet = silenced(document.source.text) if places else {}
    findings = [
        (place.lineno, place.col_offset, code, place.end_lineno or place.lineno)
        for code, place in places
        if not is_silenced(code, place.lineno, place.end_lineno or place.lineno, quiet)
    ]
    return list(_located(document, sorted(set(findings))))


def _located(document: LintedFile, findings: Sequence[tuple[int, int, str, int]]) -> Iterator[LintFinding]:
    lines = document.source.text.split("\n")
    for line, column, code, last in findings:
        first, cell = document.place(line)
        before = lines[line - 1].encode()[:column].decode()  # the tree counts bytes, an editor counts characters
        yield LintFinding(code, document.path, first, len(before) + 1, first + last - line, cell)
