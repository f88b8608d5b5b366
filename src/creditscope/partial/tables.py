"""Logs as tables: CSV, JSON lines, a list of rows, and the CSV exports of Weights & Biases and TensorBoard.

A table becomes the published form, {"final_test_acc": ..., "log": [{...}, ...]}: its rows are the log, and the accuracy
is the last number in the column of the accuracy. W&B writes one column per run and metric ("run - metric", with
"__MIN" and "__MAX" beside it); TensorBoard one file per scalar with the columns Wall time, Step and Value.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from creditscope.errors import BadFile, CreditscopeError, InvalidInput
from creditscope.partial.fields import NOTHING, PUBLISHED, look_up, missing
from creditscope.reading import parse_json

TENSORBOARD = ["Wall time", "Step", "Value"]
BOUNDS = ("__MIN", "__MAX")  # W&B's spread of a smoothed line
JOIN = " - "  # between run and metric in a W&B export
Row = dict[str, Any]


def parsed_table(text: str, name: str) -> list[Row] | None:
    """The rows of a CSV or JSON lines text; None if it is neither."""
    stripped = text.lstrip("\ufeff \t\r\n")
    if stripped.startswith("{"):
        return _json_lines(stripped, name)
    first = stripped.partition("\n")[0]
    if stripped and stripped[0] not in "[{" and ("," in first or "\t" in first or ";" in first):
        return _csv(stripped, first, name)
    return None


def _json_lines(text: str, name: str) -> list[Row] | None:
    """One object per line; None where it is a single JSON document."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < 2:
        return None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line, f"{name}, line {number}")
        except BadFile as error:
            if number == 1:
                return None  # an object over several lines
            raise BadFile(f"{error}\nThe rows of a log cannot be told apart. Write one object per line.") from error
        if not isinstance(row, dict):
            raise BadFile(
                f"{name}, line {number} holds a {type(row).__name__}, not an object.\n"
                "It is no row of a log. Write one object per line."
            )
        rows.append(row)
    return rows


def _lines(reader: Iterator[list[str]], name: str) -> Iterator[list[str]]:
    try:
        yield from reader
    except csv.Error as error:
        raise BadFile(f"{name} is not CSV: {error}.\nNothing was judged. Write the file again.") from error


def _csv(text: str, first: str, name: str) -> list[Row]:
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    heads = [head.strip() for head in next(_lines(reader, name))]
    twice = sorted(head for head, times in Counter(heads).items() if times > 1)
    if twice:
        raise BadFile(
            f"{name} has the column {twice[0]!r} more than once.\n"
            "It is ambiguous which one is meant. Rename one of them."
        )
    rows = []
    for number, cells in enumerate(_lines(reader, name), 2):
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(heads):
            raise BadFile(
                f"{name}, line {number} has {len(cells)} cells under {len(heads)} headings.\n"
                "Numbers would be read from the wrong column. Write the file again."
            )
        rows.append({head: _value(cell) for head, cell in zip(heads, cells, strict=True) if cell.strip()})
    return rows


def _value(cell: str) -> Any:
    """A number where the cell is one; NaN and infinity included."""
    text = cell.strip()
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def as_log(rows: Sequence[Mapping[str, Any]], name: str, fields: Mapping[str, str]) -> dict[str, Any]:
    """A table in the published form: its rows as the log, the last accuracy as that of the trained network."""
    if not rows:
        raise BadFile(f"{name} holds no row.\nNothing was judged. Give a log with at least one row.")
    if not all(isinstance(row, Mapping) for row in rows):
        raise BadFile(
            f"{name} is not an object with an accuracy and a log, and not a list of objects.\n"
            "Nothing was judged. Give the rows of the log as objects."
        )
    table = _without_run(rows, name)
    path = fields.get("accuracy", PUBLISHED["accuracy"])
    known = [value for row in table if _is_number(value := look_up(row, path))]
    if not known:
        raise _no_accuracy(table, name, path)
    content: dict[str, Any] = {"log": _filled(table, path)}
    _place(content, path, known[-1])
    return content


def _no_accuracy(table: Sequence[Row], name: str, path: str) -> CreditscopeError:
    """The error for a table without a number in the column of the accuracy."""
    if any(look_up(row, path) is not NOTHING for row in table):
        return InvalidInput(
            f"{name}: the column {path!r} holds no number.\n"
            "The accuracy of the trained network is not known. Write it as a share, as in 0.31."
        )
    return missing(name, "accuracy", path, list(dict.fromkeys(key for row in table for key in row)))


def _without_run(rows: Sequence[Mapping[str, Any]], name: str) -> list[Row]:
    """The rows of a W&B export under the names of the metrics; any other table as it is."""
    heads = dict.fromkeys(head for row in rows for head in row)
    metrics = [head for head in heads if JOIN in head and not head.endswith(BOUNDS)]
    if not metrics:
        return [dict(row) for row in rows]
    runs = dict.fromkeys(head.rpartition(JOIN)[0] for head in metrics)
    if len(runs) > 1:
        raise InvalidInput(
            f"{name} holds {len(runs)} runs: {', '.join(list(runs)[:4])}.\n"
            "They are seeds or methods, and would be mixed in one log. Export one run per file."
        )
    kept = [head for head in heads if not head.endswith(BOUNDS)]
    return [{head.rpartition(JOIN)[2]: row[head] for head in kept if head in row} for row in rows]


def _filled(rows: Sequence[Row], accuracy: str) -> list[Row]:
    """The rows that hold more than a step and an accuracy, with the numbers of one step joined.

    Trackers write one row per call: the norms of a step and its accuracy may stand in different rows.
    """
    joined: dict[Any, Row] = {}
    for index, row in enumerate(rows):
        step = next((row[key] for key in ("epoch", "Step", "step", "_step") if _is_number(row.get(key))), None)
        joined.setdefault(("row", index) if step is None else ("step", step), {}).update(row)
    every = list(joined.values())
    rest = [row for row in every if set(row) - {accuracy, "epoch", "Step", "step", "_step", "_runtime", "_timestamp"}]
    return rest or every


def _place(content: dict[str, Any], path: str, value: Any) -> None:
    if path in content:
        raise InvalidInput(
            f"The accuracy cannot be called {path!r}: that is the list of rows.\nName its column: --field accuracy=KEY."
        )
    content[path] = value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_scalar_export(rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a table is TensorBoard's export of one scalar."""
    return bool(rows) and all(isinstance(row, Mapping) and list(row) == TENSORBOARD for row in rows)


def joined_scalars(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Row]:
    """Scalars that TensorBoard exported to files of their own as one table, each under the name of its file."""
    steps: dict[Any, Row] = {}
    for name, rows in tables.items():
        for row in rows:
            steps.setdefault(row["Step"], {"Step": row["Step"]})[name] = row["Value"]
    return [steps[step] for step in sorted(steps)]


def scalar_name(file: Path | str) -> tuple[str, str]:
    """Run and tag in the name of TensorBoard's CSV: `run-dfa-tag-h_L_norm.csv` is h_L_norm of run-dfa."""
    path = Path(file)
    run, separator, tag = path.stem.rpartition("-tag-")
    return (str(path.with_name(run)), tag) if separator and run else (str(path.parent), path.stem)
