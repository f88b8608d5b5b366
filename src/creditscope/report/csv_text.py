"""CSV whose cells no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from creditscope.terminal import printable

FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")  # the wide ones count in some countries
UNSEEN = " \xa0\u3000\u200b\u2060\ufeff"  # that a program may drop from the start of a cell


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> str:
    """A heading and the rows below it; what a row does not have is empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([cell(column) for column in columns])
    writer.writerows([cell(row.get(column, "")) for column in columns] for row in rows)
    return text.getvalue()


def cell(value: Any) -> Any:
    """The value; a text that a spreadsheet would compute, and that is not made of numbers, has an apostrophe before it.

    Control characters of a text are written as escapes, as on the terminal.

    >>> cell("=1+1"), cell("-0.5 0.25"), cell(-0.5)
    ("'=1+1", '-0.5 0.25', -0.5)
    """
    if not isinstance(value, str):
        return value
    return printable(value if not value.lstrip(UNSEEN).startswith(FORMULA) or _numbers(value) else f"'{value}")


def _numbers(text: str) -> bool:
    try:
        return bool([float(part) for part in text.split(" ")])
    except ValueError:
        return False
