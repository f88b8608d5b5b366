"""Why a run failed, as its store keeps it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError, field_validator

from creditscope.errors import DamagedFile
from creditscope.reading import parse_json, read_text
from creditscope.records.declared import DeclaredRun
from creditscope.records.record import Record


class Failure(Record):
    """Why a run failed."""

    schema_version: Literal[1] = 1
    key: str
    spec: dict[str, Any]
    stage: Literal["train", "audit"] = "train"
    error: str
    traceback: str
    attempts: int = 1
    when: str = ""

    @field_validator("spec")
    @classmethod
    def _declares_a_run(cls, spec: dict[str, Any]) -> dict[str, Any]:
        DeclaredRun.model_validate(spec)
        return spec


def read_failure(path: Path, key: str) -> Failure:
    """The failure in a file; a file that holds none is one itself."""
    try:
        return Failure.model_validate(parse_json(read_text(path, "The failure"), str(path)))
    except (ValidationError, DamagedFile) as error:
        reason = str(error).partition("\n")[0]
        return Failure(key=key, spec={}, error=f"{path} is not a valid failure: {reason}", traceback=str(error))
