"""Runs the lines on the pages about pitfalls and fills in what they print."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from creditscope.files import write_text

FOLDER = Path(__file__).resolve().parents[1] / "pitfalls"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n```\n(?P<printed>.*?)```", re.DOTALL)


def pages() -> list[Path]:
    """The page of every pitfall, in order."""
    return sorted(FOLDER.glob("[0-9]*-*.md"), key=lambda path: int(path.name.partition("-")[0]))


def blocks(text: str) -> list[tuple[str, str]]:
    """Every (lines, what the page says they print)."""
    return [(found["code"], found["printed"]) for found in BLOCK.finditer(text)]


def printed(lines: list[str]) -> list[str]:
    """What blocks of lines print, run one after the other as one program."""
    space: dict[str, object] = {}
    outputs = []
    for code in lines:
        caught = io.StringIO()
        with contextlib.redirect_stdout(caught):
            exec(compile(code, "pitfall", "exec"), space)
        outputs.append(caught.getvalue())
    return outputs


def filled(text: str) -> str:
    """The page with what its lines print now."""
    outputs = iter(printed([code for code, _ in blocks(text)]))
    return BLOCK.sub(lambda found: f"```python\n{found['code']}```\n```\n{next(outputs)}```", text)


if __name__ == "__main__":
    for path in pages():
        print(write_text(path, filled(path.read_text(encoding="utf-8"))))
