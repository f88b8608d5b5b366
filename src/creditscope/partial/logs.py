"""Logs: an accuracy, and in every row the norms of some states and gradients."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from creditscope.errors import BadFile, InvalidInput
from creditscope.partial.fields import (
    LAST,
    NOTHING,
    PUBLISHED,
    PUBLISHED_NORM,
    look_up,
    missing,
    norm,
    paths,
    share,
    shown,
)
from creditscope.partial.tables import as_log, is_scalar_export, joined_scalars, parsed_table, scalar_name
from creditscope.reading import parse_json, read_text
from creditscope.records.labels import counted
from creditscope.records.run import RunRecord

FORM = '{"final_test_acc": 0.36, "log": [{"h_L_norm": 4e4, "g_2_norm": 1e-6}, ...]}'
Norms = dict[int, float]  # by layer


@dataclass(frozen=True, slots=True)
class LogRow:
    """The norms of one row; `elsewhere`: other keys with a non-finite number; `null`: norms without a number."""

    label: str
    hidden: Norms
    gradient: Norms
    elsewhere: tuple[str, ...] = ()
    null: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """One run: its accuracy and its rows, the last for the trained network; `blocks` is None if unknown."""

    name: str
    accuracy: float
    rows: tuple[LogRow, ...]
    blocks: int | None


def read_logs(files: Sequence[Path | str]) -> dict[str, Any]:
    """The contents of files by file name, or by path where two files have the same name.

    JSON, JSON lines and CSV; scalars that TensorBoard exported, one per file, are joined for each run.
    """
    names = [Path(file).name for file in files]
    contents: dict[str, Any] = {}
    seen: dict[str, Path | str] = {}
    for file, name in zip(files, names, strict=True):
        text = read_text(file, "The log")
        if text in seen:
            raise InvalidInput(
                f"{file} and {seen[text]} have the same content: one log was given twice.\n"
                "It would count as two seeds, and the interval over seeds would be too narrow. Give each run once."
            )
        seen[text] = file
        contents[name if names.count(name) == 1 else str(file)] = _parsed(text, file)
    return _with_scalars_joined(contents)


def _with_scalars_joined(contents: dict[str, Any]) -> dict[str, Any]:
    """The contents, with the scalars of one TensorBoard run as one table under the name of the run."""
    joined: dict[str, Any] = {}
    scalars: dict[str, dict[str, Any]] = {}
    for name, content in contents.items():
        if isinstance(content, list) and is_scalar_export(content):
            run, tag = scalar_name(name)
            scalars.setdefault(run, {})[tag] = content
            joined[run] = []
        else:
            joined[name] = content
    return joined | {run: joined_scalars(tables) for run, tables in scalars.items()}


def _parsed(text: str, file: Path | str) -> Any:
    if not text.strip():
        raise BadFile(f"{file} is empty.\nNothing was judged. The form is {FORM}, a list of rows, or CSV.")
    rows = parsed_table(text, str(file))
    if rows is not None:
        return rows
    try:
        return parse_json(text, str(file))
    except BadFile as error:
        raise BadFile(f"{error}\nNothing was judged. The form is {FORM}, a list of rows, or CSV.") from error


def parse_log(name: str, content: Any, fields: Mapping[str, str], blocks: int | None = None) -> Log:
    """Find every role in a log, or in a list of rows; `fields` are the user's own paths by role."""
    if isinstance(content, list):
        content = as_log(content, name, fields)
    if not isinstance(content, Mapping):
        raise BadFile(f"{name} is not an object with an accuracy and a log.\nNothing was judged. The form is {FORM}.")
    rows = _rows(name, content, fields)
    accuracy = share(_top(name, content, "accuracy", fields), f"{name}: the accuracy")
    names = _norm_paths(name, content, rows, fields)
    depth = _depth(name, rows, names, blocks)
    parsed = []
    for index, row in enumerate(rows):
        where = f"{name}, row {index + 1}"
        hidden, gradient = (_placed(_norms(kind, row, names, where), kind, depth, where) for kind in "hg")
        null = tuple(path for path in names.values() if look_up(row, path) is None)
        parsed.append(LogRow(_label(row, index, fields), hidden, gradient, tuple(_elsewhere(row, names)), null))
    log = Log(name, accuracy, tuple(parsed), depth)
    constant = look_up(content, names.get("h_0", "h_0_norm"))
    inside = any(0 in row.hidden for row in log.rows)
    return log if inside or constant is NOTHING else with_embedding(log, norm(constant, f"{name}: h_0"))


def with_embedding(log: Log, h0: float | None) -> Log:
    """The log with ‖h_0‖ in every row; one that is in the log already is refused."""
    if h0 is None:
        return log
    if any(0 in row.hidden for row in log.rows):
        raise InvalidInput(
            f"{log.name} holds ‖h_0‖ itself, and --h0 {h0:g} is given too.\n"
            "It is ambiguous which one D1 should start from. Omit --h0."
        )
    return replace(log, rows=tuple(replace(row, hidden={0: h0, **row.hidden}) for row in log.rows))


def log_of(record: RunRecord, *, layer: int, batch_size: int = 128) -> dict[str, Any]:
    """The history of one of our own runs in the published form: ‖h_L‖ and one ‖g_l‖ of the batch-mean loss per epoch.

    A record holds medians of each sample's own ‖g_l‖; a mean over `batch_size` samples divides them by that number.
    """
    if not record.history:
        raise InvalidInput(
            "The record has no epoch: the run diverged in its first one, or trained for none.\n"
            "The log would be empty. Use a run that completed an epoch."
        )
    depth = min(len(row.gradient_norms) for row in record.history) - 1
    if not 0 <= layer <= depth or batch_size < 1:
        raise InvalidInput(
            f"Layer {layer} in batches of {batch_size} cannot be logged: the record has layers 0 to "
            f"{depth}.\nThe log would be empty. Choose one of these layers, and a batch size of at least 1."
        )
    rows = [
        {"h_L_norm": row.hidden_norms[-1], f"g_{layer}_norm": row.gradient_norms[layer] / batch_size}
        for row in record.history
    ]
    return {"final_test_acc": record.accuracy, "log": rows}


# --- where things are ---


def _top(name: str, content: Mapping[str, Any], role: str, fields: Mapping[str, str]) -> Any:
    path = fields.get(role, PUBLISHED[role])
    value = look_up(content, path)
    if value is NOTHING:
        raise missing(name, role, path, list(paths(content)))
    return value


def _rows(name: str, content: Mapping[str, Any], fields: Mapping[str, str]) -> list[Mapping[str, Any]]:
    rows = _top(name, content, "log", fields)
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        kind = "a list with other items" if isinstance(rows, list) else shown(rows)
        raise BadFile(
            f"{name}: the log is not a list of objects, but {kind}.\nRows cannot be read from it. The form is {FORM}."
        )
    if not rows:
        raise BadFile(
            f"{name}: the log is empty.\nIts last row describes the trained network. Give a log with at least one row."
        )
    return rows


def _norm_paths(
    name: str, content: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str]
) -> dict[str, str]:
    """The paths of the norms: their published names, or the user's own; every path must exist."""
    keys = dict.fromkeys(path for row in rows for path in paths(row))
    for role, path in fields.items():
        places = (*rows, content) if role == "h_0" else rows
        if role not in ("accuracy", "log") and all(look_up(place, path) is NOTHING for place in places):
            raise missing(f"{name}, the rows of its log", role, path, list(keys))
    published = {match[1]: key for key in keys if (match := PUBLISHED_NORM.fullmatch(key))}
    by_role = {**published, **{role: path for role, path in fields.items() if role[0] in "hg"}}
    if not by_role:
        raise missing(f"{name}, the rows of its log", "h_L", "h_L_norm", list(keys))
    return by_role


def _depth(name: str, rows: Sequence[Mapping[str, Any]], names: Mapping[str, str], blocks: int | None) -> int | None:
    """The number of blocks, given or taken from the lists of all layers; None if unknown."""
    for role in {"h", "g"} & set(names):
        for index, row in enumerate(rows):
            value = look_up(row, names[role])
            if not isinstance(value, list):
                continue
            blocks = len(value) - 1 if blocks is None else blocks
            if len(value) != blocks + 1 or blocks < 1:
                states = max(blocks, 1) + 1
                raise InvalidInput(
                    f"{name}, row {index + 1}: {names[role]} holds {counted(len(value), 'norm')}, but with "
                    f"{counted(states - 1, 'block')} there are {states} states.\n"
                    "It is ambiguous which layer is which. Name the list of all layers."
                )
    return blocks


def _norms(kind: str, row: Mapping[str, Any], names: Mapping[str, str], where: str) -> Norms:
    """The norms of states (h) or gradients (g) in a row, by layer."""
    norms: dict[int, float | None] = {}
    for role, path in names.items():
        value = look_up(row, path)
        if role[0] != kind or value is NOTHING:
            continue
        if role != kind:
            norms[LAST if role[2:] == "L" else int(role[2:])] = norm(value, f"{where}: {path}")
        elif isinstance(value, list):
            norms |= {layer: norm(item, f"{where}: {path}.{layer}") for layer, item in enumerate(value)}
        else:
            raise InvalidInput(
                f"{where}: {path} is {shown(value)}, not the list of ‖{kind}_0‖ to ‖{kind}_L‖.\n"
                f"It is ambiguous which layer it is. Name one layer, as in --field {kind}_L={path}."
            )
    return {layer: size for layer, size in norms.items() if size is not None}


def _placed(norms: Norms, kind: str, blocks: int | None, where: str) -> Norms:
    """The norms with the last layer under its number, if known; a layer beyond it is refused."""
    if blocks is None:
        return norms
    beyond = max(norms, default=0)
    if beyond > blocks:
        raise InvalidInput(
            f"{where}: ‖{kind}_{beyond}‖ is logged, but with blocks = {blocks} the last state is h_{blocks}.\n"
            "The bound of D1 and the layer of D2 would be wrong. Give the number of blocks that the network has."
        )
    last, same = norms.get(LAST), norms.get(blocks)
    if last is not None and same is not None and last != same and not (math.isnan(last) and math.isnan(same)):
        raise InvalidInput(
            f"{where}: ‖{kind}_L‖ is {last:g} and ‖{kind}_{blocks}‖ is {same:g}, with {blocks} blocks.\n"
            "Both should be the last state, but they differ. Correct the number of blocks, or give one field."
        )
    return {blocks if layer == LAST else layer: size for layer, size in norms.items()}


def _label(row: Mapping[str, Any], index: int, fields: Mapping[str, str]) -> str:
    """The name of a row: the epoch that it states, else its position."""
    epoch = look_up(row, fields.get("epoch", PUBLISHED["epoch"]))
    own = isinstance(epoch, int | float | str) and not isinstance(epoch, bool)
    return f"epoch {epoch}" if own else f"row {index + 1}"


def _elsewhere(row: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Keys other than the norms whose number is not finite."""
    for path in paths(row):
        value = look_up(row, path)
        ours = any(path == name or path.startswith(f"{name}.") for name in names.values())
        if not ours and isinstance(value, float) and not math.isfinite(value):
            yield path
