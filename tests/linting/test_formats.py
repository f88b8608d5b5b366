"""The linter's output: text, JSON, GitHub's annotations and SARIF."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from creditscope.linting.formats import LINT_FORMATS
from creditscope.linting.lint import LintFinding, LintReport, NotLinted
from creditscope.linting.rules import lint_rules

FOUND = LintReport(
    (
        LintFinding("CS001", Path("src/a,b.py"), 3, 8, 4),
        LintFinding("CS005", Path("notes.ipynb"), 2, 1, 2, cell=7),
    ),
    (NotLinted(Path("bad.py"), "invalid syntax, line 1"),),
    2,
    1200,
)
CLEAN = LintReport((), (), 1, 1)


def test_text_has_a_line_per_finding_then_why_fix_and_page_of_each_rule_then_counts():
    text = LINT_FORMATS["text"](FOUND, 80)
    lines = text.split("\n")
    assert lines[0].startswith("src/a,b.py:3:8: CS001 norm(-1) is")
    assert lines[1] == "notes.ipynb:cell 7:2:1: CS005 torch.load without weights_only="
    together = " ".join(text.split())
    for code in ("CS001", "CS005"):
        rule = lint_rules[code]
        assert f"{code}: {rule.title} Why: {rule.why} Fix: {rule.fix} See: {rule.link}" in together
    assert lines[-2:] == [
        "bad.py: not linted: invalid syntax, line 1",
        "2 findings in 2 files, 1,200 lines, 1 file not linted.",
    ]
    assert max(map(len, lines[3:])) <= 80


def test_text_of_clean_code_is_one_line_with_singulars():
    assert LINT_FORMATS["text"](CLEAN, 80) == "0 findings in 1 file, 1 line."


def test_json_holds_counts_findings_and_what_was_not_linted():
    content = json.loads(LINT_FORMATS["json"](FOUND, 80))
    assert (content["files"], content["lines"]) == (2, 1200)
    first, second = content["findings"]
    assert {"code": "CS001", "path": "src/a,b.py", "line": 3, "column": 8, "end_line": 4}.items() <= first.items()
    assert "cell" not in first
    assert second["cell"] == 7
    assert all(finding[key] for finding in (first, second) for key in ("message", "why", "fix", "page"))
    assert content["not_linted"] == [{"path": "bad.py", "reason": "invalid syntax, line 1"}]


def test_github_gets_one_workflow_command_per_finding_with_separators_escaped():
    first, second, third, counts = LINT_FORMATS["github"](FOUND, 80).split("\n")
    assert first.startswith("::warning file=src/a%2Cb.py,line=3,endLine=4,col=8,title=CS001 ")
    assert "%0AFix: write norm(dim=-1)" in first
    properties, _, message = second.removeprefix("::warning ").partition("::")
    assert "line=" not in properties  # a line of a cell is no line of the file
    assert message.startswith("cell 7, line 2: torch.load")
    assert third == "::warning file=bad.py,title=not linted::invalid syntax, line 1"
    assert not counts.startswith("::")


def test_sarif_names_the_tool_its_rules_and_every_place():
    content = json.loads(LINT_FORMATS["sarif"](FOUND, 80))
    assert content["version"] == "2.1.0"
    (run,) = content["runs"]
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == list(lint_rules)
    first, second = run["results"]
    place = first["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "src/a,b.py"
    assert place["region"] == {"startLine": 3, "startColumn": 8, "endLine": 4}
    assert "region" not in second["locations"][0]["physicalLocation"]
    assert {result["ruleId"] for result in run["results"]} <= {rule["id"] for rule in run["tool"]["driver"]["rules"]}
    (problem,) = run["invocations"][0]["toolExecutionNotifications"]
    assert problem["message"]["text"] == "not linted: invalid syntax, line 1"


def test_sarif_writes_paths_as_addresses():
    (result,) = json.loads(
        LINT_FORMATS["sarif"](LintReport((LintFinding("CS001", Path("/a b/c.py"), 1, 1, 1),), (), 1, 1), 80)
    )["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "file:///a%20b/c.py"


@pytest.mark.parametrize(
    ("name", "uri"),
    [("a b%20#?.py", "a%20b%2520%23%3F.py"), ("new\nline.py", "new%0Aline.py"), ("inv\udcff.py", "inv%FF.py")],
)
def test_a_relative_path_in_sarif_is_an_address_too(name, uri):
    content = json.loads(
        LINT_FORMATS["sarif"](LintReport((LintFinding("CS001", Path("odd") / name, 1, 1, 1),), (), 1, 1), 80)
    )
    (result,) = content["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == f"odd/{uri}"


@pytest.mark.parametrize("name", ["json", "sarif"])
def test_clean_code_is_written_too(name):
    assert json.loads(LINT_FORMATS[name](CLEAN, 80))
