"""Writes the JSON schemas of reports, runs and submissions into the package and the docs, and a page for reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from creditscope.files import write_text
from creditscope.records.record import Document
from creditscope.records.report import Report
from creditscope.records.run import RunRecord
from creditscope.records.submission import Submission

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS: dict[str, type[Document]] = {"report": Report, "run": RunRecord, "submission": Submission}
START = """# The report file

`report.to_json(path)` and `creditscope audit ... --out FILE.json` write it; `Report.from_json(path)` reads it.
It is JSON. The schema: [report-schema.json](report-schema.json) here, `creditscope/records/report.schema.json` in the
package. JSON has neither NaN nor infinity: the file has `"NaN"`, `"Infinity"` or `"-Infinity"` in their place. A file
of `schema_version` 1 is read as version 2; any other version is refused. This page is written by `make docs`.
"""


def files() -> dict[Path, str]:
    """Every generated file with its text."""
    written = {ROOT / "docs/report-schema.md": page(Report.json_schema())}
    for name, document in DOCUMENTS.items():
        text = json.dumps(document.json_schema(), indent=1, ensure_ascii=False) + "\n"
        written |= {
            ROOT / f"src/creditscope/records/{name}.schema.json": text,
            ROOT / f"docs/{name}-schema.json": text,
        }
    return written


def page(schema: dict[str, Any]) -> str:
    """One table per record."""
    parts = [START, record("Report", schema)]
    parts += [record(name, found) for name, found in schema["$defs"].items() if "properties" in found]
    parts += [
        f"## {name}\n\n{found['description']}\n\n" + ", ".join(f"`{word}`" for word in found["enum"]) + "\n"
        for name, found in schema["$defs"].items()
        if "enum" in found
    ]
    return "\n".join(parts)


def record(name: str, found: dict[str, Any]) -> str:
    """The fields of one record."""
    required = found.get("required", [])
    rows = [
        f"| `{field}` | {kind(form)} | {'yes' if field in required else 'no'} |"
        for field, form in found["properties"].items()
    ]
    head = ["| field | kind | required |", "|---|---|---|"]
    return "\n".join([f"## {name}", "", found.get("description", ""), "", *head, *rows, ""])


def kind(form: dict[str, Any]) -> str:
    """A field's kind in words."""
    if "$ref" in form:
        name = form["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "const" in form:
        return f"`{form['const']}`"
    if "anyOf" in form:
        words = [kind(option) for option in form["anyOf"] if option.get("enum") != ["NaN", "Infinity", "-Infinity"]]
        return " or ".join(dict.fromkeys(words))
    if "enum" in form:
        return ", ".join(f"`{word}`" for word in form["enum"])
    if form.get("type") == "array":
        if "prefixItems" in form:
            return f"{len(form['prefixItems'])} x {kind(form['prefixItems'][0])}"
        return f"list of {kind(form['items'])}"
    if form.get("type") == "object":
        inside = form.get("additionalProperties")
        return f"mapping from name to {kind(inside)}" if isinstance(inside, dict) else "mapping"
    return str(form.get("type", "anything"))


if __name__ == "__main__":
    for path, text in files().items():
        print(write_text(path, text).relative_to(ROOT))
