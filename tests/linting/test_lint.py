"""The linter on files: planted pitfalls, what is not Python, notebooks, comments, folders."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.linting.snippets import lint_text

import creditscope
from creditscope.errors import BadFile, InvalidInput
from creditscope.linting.lint import LintFinding, lint
from creditscope.linting.rules import lint_rule, lint_rules

PLANTED = Path(__file__).with_name("planted.py")
WRONG = "size = h.norm(-1)\n"


def notebook(path: Path, *cells: tuple[str, object]) -> Path:
    content = {"cells": [{"cell_type": kind, "source": source} for kind, source in cells], "nbformat": 4}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_every_rule_fires_once_on_the_planted_file_and_only_where_it_was_planted():
    lines = PLANTED.read_text(encoding="utf-8").split("\n")
    planted = {(i, code) for i, line in enumerate(lines, start=1) for code in re.findall(r"# (CS\d+)$", line)}
    findings = [(finding.line, finding.code) for finding in lint([PLANTED]).findings]
    assert sorted(findings) == sorted(planted)
    assert Counter(code for _, code in findings) == Counter(code for code in lint_rules if code.startswith("CS"))


@pytest.mark.slow
def test_our_own_code_is_free_of_findings():
    root = Path(creditscope.__file__).parents[2]
    report = lint([root / name for name in ("src", "docs", "benchmarks")])
    assert report.findings == ()
    assert report.not_linted == ()
    assert report.lines > 10_000


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"def f(:\n", "invalid syntax, line 1"),
        (b"\x00\x01", "null bytes"),
        (b"# coding: latin-99\n", "unknown encoding"),
        (b"x = '\xff'\n", "cannot be decoded|invalid or missing encoding"),
        (b"x = " + b"(" * 5000 + b")" * 5000, "too many nested|nested too deeply"),
        (b"x = " + b"-" * 100_000 + b"1", "nested too deeply"),
        (b"x = 1" + b" + 1" * 50_000, "nested too deeply"),
        (b"\x89PNG\r\n\x1a\n", "cannot be decoded|invalid"),
    ],
)
def test_a_file_that_is_not_python_is_named_with_the_reason_and_the_rest_is_linted(content, reason, tmp_path):
    (tmp_path / "bad.py").write_bytes(content)
    (tmp_path / "good.py").write_text(WRONG)
    report = lint([tmp_path])
    assert [finding.code for finding in report.findings] == ["CS001"]
    (skipped,) = report.not_linted
    assert skipped.path == tmp_path / "bad.py"
    assert re.search(reason, skipped.reason)
    assert "\n" not in skipped.reason
    assert (report.files, report.lines) == (1, 1)


def test_an_expression_that_only_a_rule_finds_too_deep_is_not_a_crash(tmp_path):
    chain = "h.grad" + ".detach()" * 950  # the parser takes it
    (tmp_path / "deep.py").write_text(f"import torch\n\ng = {chain}\ntorch.cosine_similarity(a, {chain})\n")
    report = lint([tmp_path])
    assert [skipped.reason for skipped in report.not_linted] == ["nested too deeply"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_file_is_decoded_as_python_decodes_it_and_columns_count_characters(encoding, tmp_path):
    declared = "# coding: latin-1\n" if encoding == "latin-1" else "# no declaration\n"
    (tmp_path / "a.py").write_bytes(f"{declared}'é', h.norm(-1)\r\n".encode(encoding))
    (finding,) = lint([tmp_path]).findings
    assert (finding.line, finding.column) == (2, 6)


def test_invalid_escapes_of_a_file_are_not_reported_as_warnings(tmp_path):
    assert [finding.code for finding in lint_text("x = '\\d'\n" + WRONG, tmp_path)] == ["CS001"]


def test_a_comment_at_the_end_of_a_long_call_counts_and_one_in_a_text_does_not(tmp_path):
    call = "size = torch.norm(\n    h,\n    -1,\n)"
    assert len(lint_text(f"import torch\n{call}\n", tmp_path)) == 1
    assert lint_text(f"import torch\n{call}  # noqa: CS001\n", tmp_path) == []
    assert len(lint_text("f(h.norm(-1), '# noqa')\n", tmp_path)) == 1


def test_a_notebook_is_linted_by_its_code_cells_with_cell_and_line(tmp_path):
    path = notebook(
        tmp_path / "a.ipynb",
        ("markdown", ["h.norm(-1)"]),
        ("code", ["import torch\n", "%matplotlib inline\n", "if True:\n", "    !pip list"]),
        ("code", "%%bash\nls h.norm(-1"),
        ("code", ["x = 1\n", "torch.norm(h, -1)\n", "h.norm(-1)  # noqa: CS001"]),
    )
    report = lint([path])
    assert report.findings == (LintFinding("CS001", path, 2, 1, 2, 4),)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{}", "no list of cells"), ("[]", "no list of cells"), ("{", "Expecting"), ('{"cells": [1]}', "")],
)
def test_a_notebook_that_is_none_is_named(content, reason, tmp_path):
    path = tmp_path / "a.ipynb"
    path.write_text(content)
    report = lint([path])
    assert [skipped.path for skipped in report.not_linted] == ([path] if reason else [])
    assert all(reason in skipped.reason for skipped in report.not_linted)


def test_a_notebook_with_a_faulty_cell_is_named(tmp_path):
    (skipped,) = lint([notebook(tmp_path / "a.ipynb", ("code", "def f(:"))]).not_linted
    assert "invalid syntax" in skipped.reason


def test_below_a_folder_hidden_folders_caches_and_environments_are_left_out(tmp_path):
    for folder in ("pkg", ".git", "__pycache__", "node_modules", "env/lib"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text(WRONG)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    (tmp_path / "pkg" / "notes.txt").write_text("not Python")
    assert [finding.path for finding in lint([tmp_path]).findings] == [tmp_path / "pkg" / "a.py"]
    assert len(lint([tmp_path / ".git"]).findings) == 1  # a folder that is named is linted


def test_a_file_that_is_given_twice_is_linted_once(tmp_path):
    (tmp_path / "a.py").write_text(WRONG)
    assert lint([tmp_path, tmp_path / "a.py"]).files == 1


def test_a_named_file_needs_no_suffix(tmp_path):
    (tmp_path / "train").write_text(WRONG)
    assert len(lint([tmp_path / "train"]).findings) == 1


def test_a_path_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(BadFile, match=r"There is no file or folder .*nowhere\.\nNothing was linted"):
        lint([tmp_path / "nowhere"])


def test_a_folder_without_python_is_refused(tmp_path):
    with pytest.raises(BadFile, match="There is no Python file and no notebook below"):
        lint([tmp_path])


def test_a_folder_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    def scandir(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("os.scandir", scandir)
    with pytest.raises(BadFile, match="cannot be read: Permission denied.\nIts files would count as free of findings"):
        lint([tmp_path])


def test_a_link_that_leads_nowhere_is_named(tmp_path):
    (tmp_path / "a.py").symlink_to(tmp_path / "gone.py")
    (skipped,) = lint([tmp_path]).not_linted
    assert "cannot be read" in skipped.reason


def test_a_code_that_no_comment_could_name_is_refused():
    words = dict.fromkeys(("title", "message", "why", "fix", "page", "wrong", "right"), "x")
    with pytest.raises(InvalidInput, match="cannot have the code 'cs-1'"):
        lint_rule("cs-1", **words)
