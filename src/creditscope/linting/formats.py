"""Formats of the linter's output: text for people, json, GitHub's annotations, SARIF for code scanning."""

from __future__ import annotations

import json
import os
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from creditscope import __version__
from creditscope.linting.lint import LintFinding, LintReport
from creditscope.linting.rules import LintRule, lint_rules

SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_text(report: LintReport, columns: int) -> str:
    """One line per finding, then the reason and the fix of each rule that fired, then the counts."""
    lines = [f"{_place(finding)}: {finding.code} {finding.message}" for finding in report.findings]
    for code in sorted({finding.code for finding in report.findings}):
        rule = lint_rules[code]
        lines += ["", f"{code}: {rule.title}"]
        for label, text in (("Why", rule.why), ("Fix", rule.fix), ("See", rule.link)):
            lines += textwrap.wrap(
                f"{label}: {text}", columns, initial_indent="  ", subsequent_indent="       ", break_on_hyphens=False
            )
    lines += [""] if lines else []
    lines += [f"{skipped.path}: not linted: {skipped.reason}" for skipped in report.not_linted]
    return "\n".join([*lines, _counts(report)])


def _counts(report: LintReport) -> str:
    parts = [f"{_counted(len(report.findings), 'finding')} in {_counted(report.files, 'file')}"]
    parts += [_counted(report.lines, "line")]
    parts += [f"{_counted(len(report.not_linted), 'file')} not linted"] if report.not_linted else []
    return ", ".join(parts) + "."


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _place(finding: LintFinding) -> str:
    cell = "" if finding.cell is None else f"cell {finding.cell}:"
    return f"{finding.path}:{cell}{finding.line}:{finding.column}"


def as_json(report: LintReport, columns: int) -> str:
    """Everything as one object: version, counts, findings with the words of their rules, files that were not linted."""
    content = {
        "creditscope": __version__,
        "files": report.files,
        "lines": report.lines,
        "findings": [_finding(finding) for finding in report.findings],
        "not_linted": [{"path": str(skipped.path), "reason": skipped.reason} for skipped in report.not_linted],
    }
    return json.dumps(content, indent=1, ensure_ascii=False)


def _finding(finding: LintFinding) -> dict[str, Any]:
    rule = lint_rules[finding.code]
    place = {"path": str(finding.path), "line": finding.line, "column": finding.column, "end_line": finding.end_line}
    cell = {} if finding.cell is None else {"cell": finding.cell}
    return {
        "code": rule.code,
        **place,
        **cell,
        "message": rule.message,
        "why": rule.why,
        "fix": rule.fix,
        "page": rule.link,
    }


def as_github(report: LintReport, columns: int) -> str:
    """Workflow commands, which GitHub Actions shows beside the changed lines."""
    lines = []
    for finding in report.findings:
        rule = lint_rules[finding.code]
        cell = "" if finding.cell is None else f"cell {finding.cell}, line {finding.line}: "
        place = f"file={_property(str(finding.path))}"
        if finding.cell is None:  # a line of a cell is no line of the notebook's file
            place += f",line={finding.line},endLine={finding.end_line},col={finding.column}"
        text = _data(f"{cell}{rule.message}\nWhy: {rule.why}\nFix: {rule.fix}\nSee: {rule.link}")
        lines.append(f"::warning {place},title={_property(f'{rule.code} {rule.title}')}::{text}")
    for skipped in report.not_linted:
        lines.append(f"::warning file={_property(str(skipped.path))},title=not linted::{_data(skipped.reason)}")
    return "\n".join([*lines, _counts(report)])


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_sarif(report: LintReport, columns: int) -> str:
    """SARIF 2.1.0, which code scanning reads."""
    problems = [
        {"level": "error", "message": {"text": f"not linted: {skipped.reason}"}, "locations": [_location(skipped.path)]}
        for skipped in report.not_linted
    ]
    run = {
        "tool": {
            "driver": {
                "name": "creditscope",
                "version": __version__,
                "rules": [_sarif_rule(rule) for rule in lint_rules.values()],
            }
        },
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": problems}],
        "results": [_sarif_result(finding) for finding in report.findings],
    }
    return json.dumps({"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1, ensure_ascii=False)


def _sarif_rule(rule: LintRule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.why},
        "help": {"text": f"{rule.why}\nFix: {rule.fix}.\nSee {rule.link}."},
        "defaultConfiguration": {"level": "warning"},
    }


def _sarif_result(finding: LintFinding) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column, "endLine": finding.end_line}
    cell = "" if finding.cell is None else f"cell {finding.cell}, line {finding.line}: "
    return {
        "ruleId": finding.code,
        "level": "warning",
        "message": {"text": cell + finding.message},
        "locations": [_location(finding.path, None if finding.cell is not None else region)],
    }


def _location(path: Path, region: Mapping[str, int] | None = None) -> dict[str, Any]:
    uri = path.as_uri() if path.is_absolute() else quote(os.fsencode(path.as_posix()), safe="/,")
    return {"physicalLocation": {"artifactLocation": {"uri": uri}} | ({"region": region} if region else {})}


LINT_FORMATS: dict[str, Callable[[LintReport, int], str]] = {
    "text": as_text,
    "json": as_json,
    "github": as_github,
    "sarif": as_sarif,
}
