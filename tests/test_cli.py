from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from creditscope import __version__, commands
from creditscope.cli import run

SLOW = ("torch", "scipy", "altair", "ray", "lightning", "numpy")


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The program in a process of its own."""
    command = [sys.executable, "-m", "creditscope", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["audit", "--help"],
        ["explain", "D2"],
        ["explain", "D99"],
        ["list", "diagnostics"],
        ["list", "methods"],
    ],
)
def test_words_about_the_program_import_nothing_slow(arguments):
    program = (
        "import sys; from creditscope.cli import run; run(sys.argv[1:]);"
        f"sys.stderr.write('slow: ' + ' '.join(sorted(set(sys.modules) & set({SLOW!r}))))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stderr.endswith("slow: ")


def test_the_version_is_shown():
    done = started("--version")
    assert (done.returncode, done.stdout) == (0, f"creditscope {__version__}\n")


def test_help_names_every_command_and_the_exit_codes(capsys):
    assert run(["--help"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert all(name.partition(" ")[0] in text for name in commands.commands)
    assert "0 pass, 1 fail, 3 inconclusive, 2 invalid input, 70 crash" in text


def test_no_command_at_all_shows_the_help(capsys):
    assert run([]) in (0, 2)
    shown = capsys.readouterr()
    assert "Usage: creditscope" in shown.out + shown.err


def test_a_misspelt_command_is_a_usage_error(capsys):
    assert run(["adit"]) == 2
    assert "audit" in capsys.readouterr().err


@pytest.mark.parametrize("code", [0, 1, 3])
def test_what_a_command_returns_is_the_exit_code(only, code):
    only(lambda: code)
    assert run(["act"]) == code


def test_a_crash_of_ours_exits_with_70_and_says_how_to_report_it(only, capsys):
    def crash() -> int:
        raise ZeroDivisionError("our fault")

    only(crash)
    assert run(["act"]) == 70
    message = capsys.readouterr().err
    assert "Traceback" in message
    assert "ZeroDivisionError: our fault" in message
    assert "This is a bug in creditscope, not an error in your input.\nPlease report it" in message


@pytest.mark.parametrize("arguments", [["lint", "locked/code"], ["audit", "locked/run"], ["audit", "locked/run.pt"]])
def test_a_folder_without_permission_is_no_bug_of_ours(arguments, monkeypatch, capsys):
    stat = Path.stat

    def closed(path, **options):
        if "locked" in path.parts:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", closed)  # root may look into every folder
    assert run(arguments) == 2
    message = capsys.readouterr().err
    assert f"{arguments[1]!r} cannot be read or written: Permission denied.\n" in message
    assert "Check its permissions" in message
    assert "Traceback" not in message


def test_a_permission_that_is_about_no_path_is_a_crash(only, capsys):
    def forbidden() -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    only(forbidden)
    assert run(["act"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_exits_with_130_and_no_traceback(only, capsys):
    def interrupted() -> int:
        raise KeyboardInterrupt

    only(interrupted)
    assert run(["act"]) == 130
    assert capsys.readouterr().err == "Interrupted. Nothing was left half-written.\n"


def test_a_terminal_without_unicode_gets_symbols_in_ascii_instead_of_a_crash():
    done = started("explain", "D2", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0
    assert "||g_L||" in done.stdout


def test_a_reader_that_goes_away_changes_no_exit_code():
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "creditscope", "explain", "D2"]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_program_that_pip_installs_is_this_one():
    program = Path(sys.executable).with_name("creditscope")
    if not program.exists():
        pytest.skip("creditscope is not installed beside this Python: make install")
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    assert done.stdout == f"creditscope {__version__}\n"
