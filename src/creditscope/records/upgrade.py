"""Reads documents of schema version 1 as version 2.

Version 1 kept some facts in sentences only. This module is the only one that takes them from there:

guards        "passed: how" was one text; it is a status and a text
exact_layers  layers whose credit is the gradient by construction were named in the notes of Γ and D5
"""

from __future__ import annotations

import re
from typing import Any

from creditscope.provenance import GuardStatus

READABLE = (1, 2)  # schema versions, the last is the one that is written
EVERY_LAYER = "the credit is the gradient by construction, at every layer"  # D5
EVERY_DEEP_LAYER = "exact by construction at every deep layer"  # Γ
SOME_LAYERS = re.compile(r"without layer ([\d, ]+), exact by construction")  # Γ


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """A report or run record of version 1 as version 2; parts that are not of the expected form stay as they are."""
    changes: dict[str, Any] = {"schema_version": 2}
    if isinstance(document.get("report"), dict):
        changes["report"] = upgraded(document["report"])
    if isinstance(document.get("findings"), dict):
        changes["exact_layers"] = _exact_layers(document)
    origin = document.get("provenance")
    if isinstance(origin, dict) and isinstance(origin.get("guards"), dict):
        changes["provenance"] = {**origin, "guards": {name: _guard(text) for name, text in origin["guards"].items()}}
    return {**document, **changes}


def _guard(text: Any) -> Any:
    status, _, rest = str(text).partition(": ")
    return {"status": status, "text": rest} if status in set(GuardStatus) else text


def _exact_layers(report: dict[str, Any]) -> list[int]:
    gamma, aggregation = _entry(report, "measures", "gamma"), _entry(report, "findings", "D5")
    note, states = str(gamma.get("note")), len(gamma.get("per_layer") or ())
    if aggregation.get("note") == EVERY_LAYER:
        return list(range(states))
    if EVERY_DEEP_LAYER in note:
        return list(range(1, states))
    named = SOME_LAYERS.search(note)
    return [int(layer) for layer in named[1].split(",")] if named else []


def _entry(report: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    entries = report.get(part)
    entry = entries.get(name) if isinstance(entries, dict) else None
    return entry if isinstance(entry, dict) else {}
