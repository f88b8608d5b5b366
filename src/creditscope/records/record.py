"""The common form of every record: frozen and strict; a `Document` has its own JSON file and schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from creditscope.errors import BadFile
from creditscope.files import read_text, write_text
from creditscope.records.upgrade import READABLE, upgraded

NOT_FINITE = ("NaN", "Infinity", "-Infinity")


class AsWritten(GenerateJsonSchema):
    """Schemas of our files as written: JSON has no NaN and no infinity, so these are strings."""

    def float_schema(self, schema: core_schema.FloatSchema) -> JsonSchemaValue:
        """A number, or one of "NaN", "Infinity" and "-Infinity"."""
        return {"anyOf": [super().float_schema(schema), {"enum": list(NOT_FINITE)}]}


class Record(BaseModel):
    """Frozen, strict about its fields, exact about numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Document(Record):
    """A record that is written to a JSON file and read from one, older schema versions included.

    noun, remedy   for the error messages: "report" and "audit"
    readable       schema versions that can be read
    """

    noun: ClassVar[str]
    remedy: ClassVar[str]
    readable: ClassVar[tuple[int, ...]] = READABLE
    schema_version: Literal[2] = 2

    def to_json(self, path: Path | str | None = None) -> str:
        """The record as JSON; also written to `path` if one is given."""
        text = self.model_dump_json(indent=1) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    @classmethod
    def from_json(cls, path: Path | str) -> Self:
        """Read a file; an unknown schema version or a damaged file is refused."""
        return cls.parse(read_text(path, f"The {cls.noun}"), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "the text") -> Self:
        """The record in a JSON text; `name` is what error messages call the text."""
        try:
            document = json.loads(text)
            version = document.get("schema_version") if isinstance(document, dict) else None
            if version not in cls.readable:
                raise BadFile(
                    f"{name} has schema version {version!r}, this creditscope reads "
                    f"{' and '.join(map(str, cls.readable))}.\n"
                    f"Fields may have changed their meaning. Use the creditscope that wrote it, or {cls.remedy} again."
                )
            return cls.model_validate_json(text if version == READABLE[-1] else json.dumps(upgraded(document)))
        except (json.JSONDecodeError, ValidationError) as error:
            message = f"{name} is not a creditscope {cls.noun}: {error}\n{cls.remedy.capitalize()} again to make one."
            raise BadFile(message) from error

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of such a file; what is computed is absent from older ones."""
        schema = cls.model_json_schema(mode="serialization", schema_generator=AsWritten)
        for part in (schema, *schema.get("$defs", {}).values()):
            computed = [name for name, field in part.get("properties", {}).items() if field.get("readOnly")]
            if computed:
                part["required"] = [name for name in part["required"] if name not in computed]
        return schema
