"""Reading what is to be linted: the files below a path, the text of a file, the cells of a notebook."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from creditscope.errors import BadFile, CreditscopeError
from creditscope.linting.source import SourceFile
from creditscope.reading import read_bytes

SUFFIXES = (".py", ".ipynb")
SKIPPED_FOLDERS = ("__pycache__", "node_modules")
ENVIRONMENT = "pyvenv.cfg"  # lies in the root of a virtual environment
MAGIC = re.compile(r"^(\s*)[%!?].*$")


class NotPython(CreditscopeError):
    """A file that cannot be parsed; its message says why, in one line."""


@dataclass(frozen=True, slots=True)
class LintedFile:
    """A parsed file; of a notebook also the line at which each code cell begins, with the number of the cell."""

    path: Path
    source: SourceFile
    cells: tuple[tuple[int, int], ...] = ()

    @property
    def lines(self) -> int:
        """The number of lines of code, comments and blanks."""
        return self.source.text.count("\n") + (self.source.text[-1:] not in ("", "\n"))

    def place(self, line: int) -> tuple[int, int | None]:
        """A line of the text as (line, cell): within its cell for a notebook, else the line itself and None."""
        begun = [(start, cell) for start, cell in self.cells if start <= line]
        return (line - begun[-1][0] + 1, begun[-1][1]) if begun else (line, None)


def files_below(paths: Sequence[Path]) -> Iterator[Path]:
    """The files that are named, and every Python file and notebook below a folder, each once and in order.

    Hidden folders and virtual environments below a folder are left out.
    """
    seen: set[Path] = set()
    for path in paths:
        if not path.exists():
            raise BadFile(f"There is no file or folder {path}.\nNothing was linted. Check the path.")
        for file in _walk(path) if path.is_dir() else [path]:
            if file not in seen:
                seen.add(file)
                yield file
    if not seen:
        raise BadFile(
            f"There is no Python file and no notebook below {', '.join(map(str, paths))}.\n"
            "Nothing was linted. Check the path."
        )


def _walk(root: Path) -> Iterator[Path]:
    for folder, inner, names in os.walk(root, onerror=_refuse):
        here = Path(folder)
        inner[:] = sorted(name for name in inner if _is_own_code(here / name))
        yield from (here / name for name in sorted(names) if name.endswith(SUFFIXES))


def _is_own_code(folder: Path) -> bool:
    """Whether a folder is neither hidden nor a cache nor a virtual environment."""
    return (
        not folder.name.startswith(".") and folder.name not in SKIPPED_FOLDERS and not (folder / ENVIRONMENT).exists()
    )


def _refuse(error: OSError) -> None:
    raise BadFile(
        f"The folder {error.filename} cannot be read: {error.strerror}.\n"
        "Its files would count as free of findings. Check its permissions."
    ) from error


def read(path: Path) -> LintedFile:
    """A file, decoded as Python would and parsed; one that cannot be is a NotPython."""
    try:
        content = read_bytes(path, "The file")
        if path.suffix == ".ipynb":
            text, cells = _cells(content)
            return LintedFile(path, SourceFile(text, _parsed(text)), cells)
        encoding, _ = tokenize.detect_encoding(io.BytesIO(content).readline)
        text = io.TextIOWrapper(io.BytesIO(content), encoding).read()
        return LintedFile(path, SourceFile(text, _parsed(text)))
    except SyntaxError as error:
        raise NotPython(f"{error.msg}, line {error.lineno}" if error.lineno else str(error.msg)) from error
    except (UnicodeDecodeError, LookupError) as error:
        raise NotPython(f"cannot be decoded: {error}") from error
    except (RecursionError, MemoryError) as error:
        raise NotPython("nested too deeply") from error
    except BadFile as error:
        raise NotPython(str(error).partition("\n")[0]) from error
    except ValueError as error:  # null bytes, a notebook that is no JSON
        raise NotPython(str(error)) from error


def _parsed(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of invalid escapes: they are the business of other linters
        return ast.parse(text)


def _cells(content: bytes) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The code cells of a notebook as one text, and the line at which each begins with its number, counted from 1."""
    notebook = json.loads(content)
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list):
        raise ValueError("not a notebook: it has no list of cells")
    lines: list[str] = []
    starts = []
    for number, cell in enumerate(cells, start=1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        given = cell.get("source", "")
        code = "".join(given) if isinstance(given, list) else str(given)
        if not code.lstrip().startswith("%%"):  # a cell in another language
            starts.append((len(lines) + 1, number))
            lines += [MAGIC.sub(r"\1pass", line) for line in code.split("\n")]
    return "\n".join(lines) + "\n", tuple(starts)
