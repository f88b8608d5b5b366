"""Every lint rule fires in its wrong lines, once and alone, is silent in its right ones, and can be silenced."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from tests.linting.snippets import lint_text

from creditscope.linting.rules import LintRule, lint_rules

PITFALLS = Path(__file__).resolve().parents[2] / "docs" / "pitfalls"


@pytest.fixture(params=list(lint_rules))
def rule(request) -> LintRule:
    return lint_rules[request.param]


def with_comment(text: str, line: int, comment: str) -> str:
    lines = text.split("\n")
    lines[line - 1] += f"  # {comment}"
    return "\n".join(lines)


def test_a_rule_names_itself_and_says_what_why_and_how(rule):
    assert lint_rules[rule.code] is rule
    for text in (rule.title, rule.message, rule.why, rule.fix):
        assert text
        assert "\n" not in text
    assert not rule.message.endswith(".")
    assert not rule.fix.endswith(".")
    assert rule.why.endswith(".")


def test_the_page_of_the_pitfall_exists(rule):
    assert (PITFALLS / rule.page).is_file() or not rule.code.startswith("CS")
    assert rule.link.endswith(rule.page)


def test_the_examples_are_python(rule):
    ast.parse(rule.wrong)
    ast.parse(rule.right)
    assert rule.wrong != rule.right


def test_it_fires_once_in_the_wrong_lines_and_no_other_rule_does(rule, tmp_path):
    assert [finding.code for finding in lint_text(rule.wrong, tmp_path)] == [rule.code]


def test_no_rule_fires_in_the_right_lines(rule, tmp_path):
    assert lint_text(rule.right, tmp_path) == []


@pytest.mark.parametrize("form", ["noqa: {}", "noqa", "NOQA:{}", "noqa: E501, {} as planned", "why not  # noqa: {}"])
def test_a_comment_on_the_line_silences_it(rule, form, tmp_path):
    (finding,) = lint_text(rule.wrong, tmp_path)
    assert lint_text(with_comment(rule.wrong, finding.line, form.format(rule.code)), tmp_path) == []


@pytest.mark.parametrize("form", ["noqa: E501", "noqa: {}9", "noqaa", "{}"])
def test_a_comment_about_something_else_does_not(rule, form, tmp_path):
    (finding,) = lint_text(rule.wrong, tmp_path)
    assert lint_text(with_comment(rule.wrong, finding.line, form.format(rule.code)), tmp_path) == [finding]


def test_a_comment_on_another_line_does_not(rule, tmp_path):
    (finding,) = lint_text(rule.wrong, tmp_path)
    (moved,) = lint_text(f"# noqa\n{rule.wrong}", tmp_path)
    assert (moved.code, moved.line) == (finding.code, finding.line + 1)
