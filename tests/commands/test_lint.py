"""`creditscope lint`: exit codes, formats and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLOW = ("torch", "scipy", "numpy", "altair", "pandas")


@pytest.fixture
def code(tmp_path, monkeypatch) -> Path:
    """A folder with one clean file, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clean.py").write_text("x = 1\n")
    return tmp_path


def test_clean_code_exits_with_0(code, creditscope):
    outcome = creditscope("lint", ".")
    assert (outcome.code, outcome.out) == (0, "0 findings in 1 file, 1 line.\n")


def test_findings_exit_with_1_and_name_place_and_fix(code, creditscope):
    (code / "wrong.py").write_text("size = h.norm(-1)\n")
    outcome = creditscope("lint", "wrong.py", "clean.py")
    assert outcome.code == 1
    assert outcome.out.startswith("wrong.py:1:8: CS001 ")
    assert "Fix: write norm(dim=-1)" in outcome.out


def test_a_path_that_does_not_exist_exits_with_2(code, creditscope):
    outcome = creditscope("lint", "clean.py", "nowhere")
    assert outcome.code == 2
    assert outcome.err.startswith("Error: There is no file or folder nowhere.")


def test_a_file_that_is_not_python_exits_with_2_unless_there_are_findings(code, creditscope):
    (code / "notes.md").write_text("# Notes\n\nNot Python at all.\n")
    outcome = creditscope("lint", "clean.py", "notes.md")
    assert outcome.code == 2
    assert (
        "notes.md: not linted: invalid syntax, line 3\n0 findings in 1 file, 1 line, 1 file not linted." in outcome.out
    )
    (code / "wrong.py").write_text("size = h.norm(-1)\n")
    assert creditscope("lint", ".", "notes.md").code == 1


def test_no_path_is_a_usage_error(creditscope):
    assert creditscope("lint").code == 2


def test_an_unknown_format_is_refused(code, creditscope):
    outcome = creditscope("lint", ".", "--format", "sarfi")
    assert outcome.code == 2
    assert "Did you mean 'sarif'?" in outcome.err


@pytest.mark.parametrize("name", ["text", "json", "github", "sarif"])
def test_every_format_is_written_with_the_same_exit_code(name, code, creditscope):
    (code / "wrong.py").write_text("size = h.norm(-1)\n")
    outcome = creditscope("lint", ".", "--format", name)
    assert outcome.code == 1
    assert "CS001" in outcome.out
    if name in ("json", "sarif"):
        json.loads(outcome.out)


def test_it_imports_nothing_slow_and_not_the_code_that_it_reads(tmp_path):
    (tmp_path / "train.py").write_text("import torch\nraise SystemExit('imported')\n")
    program = (
        "import sys; from creditscope.cli import run; code = run(sys.argv[1:]);"
        f"print(code, sorted(set(sys.modules) & {{'train', *{SLOW!r}}}))"
    )
    command = [sys.executable, "-c", program, "lint", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "0 []"


HOOK = ROOT / ".ci" / "pre-commit-lint"


def test_the_pre_commit_hook_needs_no_installed_package(code):
    """`-S` leaves out site-packages: whatever is imported is standard library or ours."""
    (code / "wrong.py").write_text("size = h.norm(-1)\n")

    def hooked(*paths):
        return subprocess.run([sys.executable, "-S", HOOK, *paths], capture_output=True, text=True, check=False)

    assert (hooked("clean.py").returncode, hooked("clean.py").stdout) == (0, "0 findings in 1 file, 1 line.\n")
    assert hooked("clean.py", "wrong.py").returncode == 1
    assert hooked("wrong.py").stdout.startswith("wrong.py:1:8: CS001 ")
    missing = hooked("nowhere.py")
    assert (missing.returncode, missing.stderr.splitlines()[0]) == (2, "Error: There is no file or folder nowhere.py.")


def test_the_pre_commit_hook_names_a_script_that_can_be_run_and_takes_python_files_and_notebooks():
    hook = (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8")
    assert "id: creditscope-lint" in hook
    assert f"entry: {HOOK.relative_to(ROOT)}" in hook
    assert HOOK.stat().st_mode & 0o100
    assert "types_or: [python, jupyter]" in hook
