"""Writing to the terminal: foreign text is escaped, a closed or full output is no crash, widths are sane."""

from __future__ import annotations

import codecs
import errno
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal, TextIO

from creditscope.errors import NoRoom

STYLES = {"bold": "1", "dim": "2", "red": "1;31", "green": "1;32", "yellow": "1;33"}
NARROW, WIDE = 40, 400  # no page is laid out for fewer or more columns
WIDEST_PAGE = 140  # wider lines are hard to read
# C0 but for tab and line feed, DEL, C1, marks that reverse the direction of writing, line separators, half characters
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_OWN_STYLE = re.compile(f"(\x1b\\[(?:0|{'|'.join(STYLES.values())})m)")
_ASCII = {
    "‖": "||",
    "─": "-",
    "│": "|",
    "Γ": "Gamma",
    "ρ": "rho",
    "λ": "lambda",
    "σ": "sigma",
    "×": "x",
    "·": ".",
    "→": "->",
    "≤": "<=",
    "≥": ">=",
    "−": "-",
    "–": "-",
    "√": "sqrt ",
    "²": "^2",
    "∞": "inf",
    "…": "...",
}


def printable(text: str) -> str:
    r"""The text with every control character shown as an escape; line breaks and tabs stay.

    >>> print(printable("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return _CONTROL.sub(_escape, text)


def one_line(text: str, most: int = 80) -> str:
    """The text on one line of at most `most` characters, printable; where it is cut it ends in …."""
    text = " ".join(printable(text[: 4 * most]).split())
    return text if len(text) <= most else text[: most - 1] + "…"


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}"  # from DEL on, what JSON and JavaScript read too


def styled(text: str) -> str:
    """As `printable`, with the styles of our own pages left as they are."""
    return "".join(part if place % 2 else printable(part) for place, part in enumerate(_OWN_STYLE.split(text)))


def paint(text: str, style: str) -> str:
    """The text in one of the styles; a blank text stays as it is."""
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if style and text.strip() else text


def say(text: str, *, painted: bool = False) -> None:
    """Print to standard output; a reader that has gone away, as in `| head`, does not change the exit code.

    painted   the text is a page whose foreign parts are printable already, with our styles around them
    """
    shown = styled(text) if painted else printable(text)
    _guarded(lambda: _write(sys.stdout, shown + "\n"))


def complain(text: str) -> None:
    """Print to standard error; where that cannot be written, nobody can be told."""
    with suppress(OSError, ValueError):
        _write(sys.stderr, printable(text) + "\n")


def flush() -> None:
    """Write what other libraries left in the buffer of standard output."""
    _guarded(lambda: sys.stdout.flush())


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()


def _guarded(act: Callable[[], object]) -> None:
    """Write to standard output; from the first failure on, the rest goes nowhere."""
    try:
        act()
    except ValueError:
        if not sys.stdout.closed:
            raise
        sys.stdout = _nowhere("w")
    except OSError as error:
        discard_output()
        if error.errno not in (errno.EPIPE, errno.EBADF):
            raise NoRoom(f"Standard output cannot be written: {error.strerror}.\nThe text is not complete.") from error


def discard_output() -> None:
    """Let standard output lead nowhere, so that what is left in its buffer fails no second time."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def open_streams() -> None:
    """Give a process whose standard streams are closed ones that lead nowhere; let every name pass any encoding.

    A descriptor left closed would be taken by the next file that is opened, and a print would end up in it.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, _nowhere("w" if descriptor else "r"))
    codecs.register_error("creditscope", _unencodable)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="creditscope")


def _nowhere(mode: Literal["r", "w"]) -> TextIO:
    return Path(os.devnull).open(mode, encoding="utf-8")  # open as long as the process lives


def _unencodable(error: UnicodeError) -> tuple[str | bytes, int]:
    """What an encoding lacks: our own symbols in ASCII, any other character as its escape, so that names stay apart."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = "".join(
        _ASCII.get(character) or character.encode("ascii", "backslashreplace").decode()
        for character in error.object[error.start : error.end]
    )
    return text, error.end


def clamp_width() -> None:
    """Replace widths in the environment by ones that a page can have; layout libraries believe any number there."""
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        value = os.environ.get(name)
        if value is None:
            continue
        if value.isascii() and value.isdigit() and len(value) < 20 and int(value):
            os.environ[name] = str(min(max(int(value), NARROW), WIDE))
        elif value.isascii() and value.isdigit() and int(value[:20]):
            os.environ[name] = str(WIDE)
        else:
            del os.environ[name]
    columns = get_terminal_size((80, 24)).columns
    if not NARROW <= columns <= WIDE:
        os.environ["COLUMNS"] = str(min(max(columns, NARROW), WIDE))


def width() -> int:
    """The width of a page in columns: that of the terminal, 80 without one, at least 40 and at most 140."""
    return min(max(get_terminal_size((80, 24)).columns, NARROW), WIDEST_PAGE)


def coloured() -> bool:
    """Whether standard output is a terminal with colours; NO_COLOR turns them off."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
