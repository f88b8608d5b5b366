"""The common form of every record: frozen and strict; a `Document` has its own JSON file and schema."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from creditscope.errors import BadFile, DamagedFile
from creditscope.files import write_text
from creditscope.reading import ZEROS, parse_json, read_text, seal_holds, sealed
from creditscope.records.upgrade import READABLE, upgraded

CHECKSUM = re.compile(r'"checksum": ?"[0-9a-f]{64}",')
NOT_FINITE = ("NaN", "Infinity", "-Infinity")


def _share(value: float) -> float:
    if not (0 <= value <= 1 or math.isnan(value)):
        raise ValueError(f"a share of right answers lies between 0 and 1, not at {value:g}")
    return value


Share = Annotated[float, AfterValidator(_share)]  # NaN where nothing was measured


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

    def to_json(self, path: Path | str | None = None, *, indent: int | None = 1) -> str:
        """The record as JSON with a checksum of itself; also written to `path` if one is given."""
        plain, gap = self.model_dump_json(indent=indent), "\n " if indent else ""
        colon = ": " if indent else ":"
        empty = f'{{{gap}"checksum"{colon}"{ZEROS}",{plain[1:]}\n'
        text = sealed(empty.encode()).decode()
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
        if seal_holds(text.encode(errors="surrogatepass")) is False:
            raise DamagedFile(
                f"{name} is not what creditscope wrote: its checksum does not match, so it was damaged or edited.\n"
                f"Its numbers cannot be trusted. Restore the file, or {cls.remedy} again."
            )
        try:
            document = parse_json(text, name)
        except DamagedFile as error:
            why = str(error).partition("\n")[0]
            raise DamagedFile(
                f"{name} is not a creditscope {cls.noun}: {why}\n{cls.remedy.capitalize()} again to make one."
            ) from error
        version = document.get("schema_version") if isinstance(document, dict) else None
        if version not in cls.readable or isinstance(version, bool):
            raise BadFile(
                f"{name} has schema version {version!r}, this creditscope reads "
                f"{' and '.join(map(str, cls.readable))}.\n"
                f"Fields may have changed their meaning. Use the creditscope that wrote it, or {cls.remedy} again."
            )
        document.pop("checksum", None)
        try:
            record = cls.model_validate_json(text if version == READABLE[-1] else json.dumps(upgraded(document)))
        except (ValueError, TypeError) as error:  # TypeError: an older document with parts of another form
            message = f"{name} is not a creditscope {cls.noun}: {error}\n{cls.remedy.capitalize()} again to make one."
            raise DamagedFile(message) from error
        return record.judged_again()

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As of any pydantic model; the checksum, which is about the file and no field, is left out."""
        text = json_data if isinstance(json_data, str) else bytes(json_data).decode()
        return super().model_validate_json(CHECKSUM.sub("", text, count=1), **options)

    def judged_again(self) -> Self:
        """The record with every verdict computed again from its findings; by default it has none."""
        return self

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON schema of such a file; what is computed is absent from older ones."""
        schema = cls.model_json_schema(mode="serialization", schema_generator=AsWritten)
        for part in (schema, *schema.get("$defs", {}).values()):
            computed = [name for name, field in part.get("properties", {}).items() if field.get("readOnly")]
            if computed:
                part["required"] = [name for name in part["required"] if name not in computed]
        digest = {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "SHA-256 of the file with zeros here."}
        return {**schema, "properties": {"checksum": digest, **schema["properties"]}}
