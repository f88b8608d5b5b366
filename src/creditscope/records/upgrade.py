"""Reads documents of schema version 1 as version 2.

Version 1 kept some facts in sentences only, and this module is the only one that takes them from there:

guards        "passed: how" was one text; now it is a status and a text
reason        a skipped diagnostic had a note only
variant       the form of a diagnostic was known by its title
column        the heading of its numbers per layer was known to the pages only
calibrated    a limit set by the user named the calibrated one in its explanation
per_seed      D3's values per seed were kept under `per_layer`
axis          D1's numbers per block were told from numbers per state by their count
exact_layers  layers whose credit is the gradient by construction were named in the notes of Γ and D5
cause         cosines with a collapsed reference were marked "gated"; D2 says that the reference has collapsed
"""

from __future__ import annotations

import re
from typing import Any

from creditscope.provenance import GuardStatus
from creditscope.verdict import Reason

READABLE = (1, 2)  # schema versions; the last one is written
EVERY_LAYER = "the credit is the gradient by construction, at every layer"  # D5
EVERY_DEEP_LAYER = "exact by construction at every deep layer"  # Γ
SOME_LAYERS = re.compile(r"without layer ([\d, ]+), exact by construction")  # Γ
OWN_LIMIT = re.compile(r"set by the user; the calibrated limit is (\S+)")
VARIANTS = {"Scale relative to layer 0": "april", "Hidden backprop, where float64 is impossible": "single"}
COLUMNS = {"D1": "growth", "D2": "‖g‖/128", "D4": "drift", "D6": "z of Γ", "D7": "", "D9": ""}  # others: the code
REASONS = {  # how the note of a skipped diagnostic begins; any other one says what failed
    "no credit was given": Reason.NO_CREDIT,
    "no frozen-blocks control was given": Reason.NO_CONTROL,
    "no accuracy was given": Reason.NOT_GIVEN,
    "no null was drawn": Reason.NOT_GIVEN,
    "non-finite numbers were not counted": Reason.NOT_GIVEN,
    "the weights were not changed": Reason.NOT_GIVEN,
    "not available": Reason.NOT_AVAILABLE,
    "a stream without blocks": Reason.NOT_APPLICABLE,
    "the credit is the gradient by construction": Reason.NOT_APPLICABLE,
    "the mean of Γ over the layers": Reason.NOT_APPLICABLE,
    "declared to use the weights above": Reason.NOT_APPLICABLE,
    "needs ": Reason.TOO_FEW,
    "not interpretable": Reason.GATED,
}


def upgraded(document: dict[str, Any]) -> dict[str, Any]:
    """A report or run record of version 1 as version 2; parts without the expected form stay as they are."""
    changes: dict[str, Any] = {"schema_version": 2}
    if isinstance(document.get("report"), dict):
        changes["report"] = upgraded(document["report"])
    if isinstance(document.get("findings"), dict):
        changes["findings"] = {code: _finding(code, entry) for code, entry in document["findings"].items()}
        changes["exact_layers"] = _exact_layers(document)
    if isinstance(document.get("measures"), dict):
        changes["measures"] = {name: _ungated(entry) for name, entry in document["measures"].items()}
    origin = document.get("provenance")
    if isinstance(origin, dict) and isinstance(origin.get("guards"), dict):
        changes["provenance"] = {**origin, "guards": {name: _guard(text) for name, text in origin["guards"].items()}}
    return {**document, **changes}


def _guard(text: Any) -> Any:
    status, _, rest = str(text).partition(": ")
    return {"status": status, "text": rest} if status in set(GuardStatus) else text


def _finding(code: str, finding: Any) -> Any:
    if not isinstance(finding, dict):
        return finding
    note, variant = str(finding.get("note")), VARIANTS.get(str(finding.get("title")), "")
    column = "‖h‖/‖h_0‖" if code == "D1" and variant else COLUMNS.get(code, code)
    changes: dict[str, Any] = {"variant": variant, "column": column, "limit": _limit(finding.get("limit"))}
    if finding.get("status") == "skipped":
        known = (reason for start, reason in REASONS.items() if note.startswith(start))
        changes["reason"] = next(known, Reason.NOT_POSSIBLE).value
    measured = _ungated(finding.get("measurement"))
    if isinstance(measured, dict):
        if code == "D3":
            measured = {**measured, "per_layer": [], "per_seed": measured.get("per_layer", [])}
        changes["measurement"] = {**measured, "axis": "block"} if code == "D1" and not variant else measured
    return {**finding, **changes}


def _limit(limit: Any) -> Any:
    own = OWN_LIMIT.fullmatch(str(limit.get("because"))) if isinstance(limit, dict) else None
    return limit if own is None else {**limit, "because": "", "calibrated": own[1]}


def _ungated(measurement: Any) -> Any:
    gated = isinstance(measurement, dict) and measurement.get("cause") == "gated"
    return {**measurement, "cause": ""} if gated else measurement


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
