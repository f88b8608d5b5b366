"""JSON schemas of the files that creditscope writes."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class AsWritten(GenerateJsonSchema):
    """Schemas of our files as written: JSON has no NaN and no infinity, so these are strings."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        """A number, or one of "NaN", "Infinity" and "-Infinity"."""
        return {"anyOf": [super().float_schema(schema), {"enum": list(NOT_FINITE)}]}


def report_schema() -> dict[str, Any]:
    """The schema of a report file, as shipped with this version."""
    schema: dict[str, Any] = json.loads((files(__package__) / "report.schema.json").read_text(encoding="utf-8"))
    return schema
