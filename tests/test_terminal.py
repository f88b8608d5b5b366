"""What reaches a terminal is printable; closed and full outputs end with the right code."""

from __future__ import annotations

import ast
import errno
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.report.made import report

import creditscope
from creditscope import terminal
from creditscope.cli import run
from creditscope.errors import NoRoom
from creditscope.records.report import Report
from creditscope.report.text import brief, page
from creditscope.study.display.board import Board, LiveBoard
from creditscope.terminal import NARROW, WIDE, clamp_width, one_line, printable, say, styled, width

HOSTILE = "a\x1b[2J\x07\x9b31mb\r\u202ec\ud800"
ESCAPES = ("\x1b", "\x07", "\x9b", "\r", "\u202e", "\ud800")


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command line of a shell in which "$P" is the program."""
    program = f"{sys.executable} -m creditscope"
    return subprocess.run(
        ["sh", "-c", line.replace("$P", program)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | environment,
        encoding="utf-8",
    )


def test_every_control_character_is_shown_as_an_escape_and_plain_text_stays():
    assert printable(HOSTILE) == r"a\x1b[2J\x07\u009b31mb\x0d\u202ec\ud800"
    assert printable("‖g‖ = 3\n\tΓ") == "‖g‖ = 3\n\tΓ"
    every = "".join(map(chr, range(0x20000)))
    assert [c for c in printable(every) if ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000] == [
        "\t",
        "\n",
    ]


def test_escapes_keep_json_readable():
    text = json.dumps({"name": HOSTILE}, ensure_ascii=False)
    assert json.loads(printable(text)) == {"name": HOSTILE}


def test_only_the_styles_of_our_pages_pass_a_painted_text():
    assert styled("\x1b[1mtitle\x1b[0m \x1b[31m \x1b]0;x\x07") == "\x1b[1mtitle\x1b[0m \\x1b[31m \\x1b]0;x\\x07"


def test_a_long_or_many_lined_name_becomes_one_short_line():
    assert one_line("a\nb\x1bc") == r"a b\x1bc"
    assert len(one_line("x" * 10**7, 20)) == 20
    assert one_line("x" * 30, 20).endswith("…")


def hostile_report() -> Report:
    original = report()
    subject = original.subject.model_copy(update={"name": HOSTILE, "notes": HOSTILE, "model": "\x1b[1;32mPASS\x1b[0m"})
    return original.model_copy(update={"subject": subject, "protocol": "\x1b[1mx"})


@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_a_page_shows_the_names_of_a_foreign_record_escaped(colour, full):
    text = page(hostile_report(), 80, colour, full=full)
    assert r"a\x1b[2J" in text
    assert r"\x1b[1;32mPASS" in text
    assert not [escape for escape in ESCAPES[1:] if escape in text]
    assert colour or "\x1b" not in text
    assert "\x1b" not in brief(hostile_report())


def test_what_a_command_prints_and_complains_of_is_escaped(capsys, tmp_path):
    path = tmp_path / "\x1b[31mname"
    assert run(["report", str(path)]) == 2
    assert run(["explain", "D2", HOSTILE]) == 2
    assert run([HOSTILE]) == 2
    assert run(["explain", f"--{HOSTILE}"]) == 2
    say(HOSTILE)
    shown = capsys.readouterr()
    assert not [escape for escape in ESCAPES if escape in shown.out + shown.err]


@pytest.mark.parametrize("kind", [Board, LiveBoard])
def test_a_board_escapes_labels_and_reads_no_markup_in_them(kind):
    stream = io.StringIO()
    with kind(stream) as board:
        board.line(f"{HOSTILE} [/red] [bold]")
    assert r"\x1b[2J" in stream.getvalue()
    assert "[/red] [bold]" in stream.getvalue()


def test_a_board_that_cannot_write_does_not_end_the_study():
    stream = io.StringIO()
    stream.close()
    Board(stream).line("nobody hears it")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [("1000000000", "400"), ("9" * 5000, "400"), ("1", "40"), ("120", "120"), ("0", None), ("-5", None), ("²", None)],
)
def test_widths_of_the_environment_are_clamped(monkeypatch, columns, expected):
    monkeypatch.setenv("COLUMNS", columns)
    clamp_width()
    assert os.environ.get("COLUMNS") == expected
    assert NARROW <= width() <= WIDE


def test_help_in_a_billion_columns_ends(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "1000000000")
    assert run(["--help"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= WIDE


def test_symbols_and_names_survive_an_encoding_that_lacks_them():
    for encoding in ("ascii", "latin-1"):
        error = UnicodeEncodeError(encoding, "‖中文", 0, 3, "lacks it")
        assert terminal._unencodable(error) == (r"||\u4e2d\u6587", 3)


def test_a_closed_or_full_output_ends_with_the_right_code_and_no_traceback():
    line = (
        "$P --version >&-; echo $?; $P --version >/dev/full; echo $?; $P --help >/dev/full; echo $?; "
        "$P explain D99 <&- >&- 2>&-; echo $?; $P explain D99 2>/dev/full; echo $?"
    )
    done = shell(line)
    assert done.stdout.split() == ["0", "74", "74", "2", "2"]
    assert "Traceback" not in done.stderr
    assert "Standard output cannot be written: No space left on device." in done.stderr


@pytest.mark.slow
def test_help_through_head_and_optimised_python_end_quietly():
    done = shell("$P --help | head -n 1 >/dev/null; PYTHONOPTIMIZE=2 $P explain D2")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Is the reference gradient large enough" in done.stdout


def test_no_module_needs_what_optimised_python_leaves_out():
    for path in sorted(Path(creditscope.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not isinstance(node, ast.Assert), path
            assert not (isinstance(node, ast.Attribute) and node.attr == "__doc__"), path


def test_a_full_standard_output_is_told_once(monkeypatch):
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", Full())
    with pytest.raises(NoRoom, match="Standard output cannot be written"):
        say("text")
