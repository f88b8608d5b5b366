"""Selection of runs with --only KEY=VALUE."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from creditscope.errors import InvalidInput, UnknownName
from creditscope.options import Option
from creditscope.records.labels import PARTS, written
from creditscope.registry import unknown
from creditscope.study.declaration import FIELDS
from creditscope.study.plan import Plan

VALUES = re.compile(r"(\[[^]]*\]|[^,]+)")  # separated by commas, of which those inside brackets are part of a value


def parse_selection(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values of each setting from KEY=VALUE,VALUE; a value with commas stands in brackets."""
    selection: dict[str, list[str]] = {}
    for text in texts:
        key, separator, values = text.partition("=")
        if not separator or not values:
            raise InvalidInput(
                f"--only {text} is not of the form key=value.\n"
                "No run was selected. Write, for example, --only method=dfa."
            )
        selection.setdefault(key, []).extend(VALUES.findall(values))
    return selection


def only(runs: Plan, selection: Mapping[str, Sequence[str]]) -> Plan:
    """The runs whose settings have one of the selected values; an empty selection is refused with the known values."""
    kept = dict(runs)
    for key, texts in selection.items():
        if key not in FIELDS and key.partition(".")[0] not in PARTS:
            known = [*FIELDS, *(f"{part}.OPTION" for part in PARTS)]
            raise UnknownName(f"--only {key}: {unknown('setting', key, known)}")
        values = {run: spec.setting(key) for run, spec in kept.items()}
        matching = {run: kept[run] for run, value in values.items() if any(_equals(value, text) for text in texts)}
        if not matching:
            known_values = ", ".join(sorted({written(value) for value in values.values()}))
            raise InvalidInput(
                f"--only {key}={','.join(texts)} selects no run.\nThe values of {key} in this study: {known_values}."
            )
        kept = matching
    return kept


def _equals(value: Option | None, text: str) -> bool:
    """Whether a text of the command line means a value; a tuple is written [1, 2]."""
    if isinstance(value, tuple):
        parts = [part.strip().strip("'\"") for part in text.strip("[]").split(",")] if text.strip("[]") else []
        return len(parts) == len(value) and all(map(_equals, value, parts))
    if isinstance(value, bool) or value is None:
        return str(value).lower() == text.lower()
    if isinstance(value, str):
        return value == text
    try:
        return value == float(text)
    except ValueError:
        return False
