"""The published form of the files that creditscope writes, as JSON schemas."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class AsWritten(GenerateJsonSchema):
    """Schemas of our files as they are: JSON has no NaN and no infinity, so these stand there as strings."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        """A number, or the name of what is none."""
        return {"anyOf": [super().float_schema(schema), {"enum": list(NOT_FINITE)}]}


def report_schema() -> dict[str, Any]:
    """The schema of a report file, as it came with this version."""
    found: dict[str, Any] = json.loads((files(__package__) / "report.schema.json").read_text(encoding="utf-8"))
    return found
