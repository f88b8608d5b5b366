"""The common form of everything that crosses a file border."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1


class Record(BaseModel):
    """Frozen, strict about its fields, exact about numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")
