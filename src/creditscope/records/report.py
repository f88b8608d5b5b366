"""What an audit leaves behind: a report that survives a round trip through JSON, NaN and infinity included."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from creditscope.errors import BadFile
from creditscope.files import read_text, write_text
from creditscope.records.record import SCHEMA_VERSION, Record
from creditscope.verdict import Finding, Measurement, Verdict


class Subject(Record):
    """What was audited."""

    name: str
    notes: str = ""
    model: str
    depth: int
    widths: tuple[int, ...] = ()
    parameters: int = 0


class Provenance(Record):
    """Where the numbers come from: software, device, data and guards."""

    creditscope: str
    torch: str
    python: str
    commit: str | None = None
    device: str
    dtype: str
    images: int
    batches: int
    read: str
    guards: dict[str, str] = Field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    created: str = ""


class Report(Record):
    """An audit: subject, findings, measures without a limit, verdict and provenance."""

    schema_version: Literal[1] = 1
    subject: Subject
    protocol: str
    accuracy: tuple[float, ...] | None = None
    control_accuracy: tuple[float, ...] | None = None
    findings: dict[str, Finding]
    measures: dict[str, Measurement] = Field(default_factory=dict)
    verdict: Verdict
    provenance: Provenance

    def __str__(self) -> str:
        from creditscope.report.text import page

        return page(self)

    def _repr_html_(self) -> str:
        from creditscope.report.notebook import fragment

        return fragment(self)

    def __repr__(self) -> str:
        return f"Report({self.subject.name!r}, {self.verdict})"

    def to_json(self, path: Path | str | None = None) -> str:
        """The report as JSON; written to `path` too if one is given."""
        text = self.model_dump_json(indent=1) + "\n"
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: Path | str) -> Path:
        """Write the report as one page that needs no network; its path."""
        from creditscope.report.html.audit import html

        return write_text(path, html(self))

    def to_latex(self, path: Path | str | None = None) -> str:
        """Booktabs tables and the reporting form; written to `path` too if one is given."""
        from creditscope.report.latex.document import latex

        text = latex(self)
        if path is not None:
            write_text(path, text)
        return text

    def to_markdown(self, path: Path | str | None = None) -> str:
        """The same for a README or a rebuttal; written to `path` too if one is given."""
        from creditscope.report.markdown import markdown

        text = markdown(self)
        if path is not None:
            write_text(path, text)
        return text

    @classmethod
    def from_json(cls, path: Path | str) -> Report:
        """Read a report; an unknown schema version or a damaged file is refused."""
        return cls.parse(read_text(path, "The report"), str(path))

    @classmethod
    def parse(cls, text: str, name: str = "the text") -> Report:
        """A report from JSON text."""
        try:
            found = json.loads(text)
            version = found.get("schema_version") if isinstance(found, dict) else None
            if version != SCHEMA_VERSION:
                raise BadFile(
                    f"{name} has schema version {version!r}, this creditscope reads {SCHEMA_VERSION}.\n"
                    "Fields may have changed their meaning. Use the creditscope that wrote it, or audit again."
                )
            return cls.model_validate_json(text)
        except (json.JSONDecodeError, ValidationError) as error:
            raise BadFile(f"{name} is not a creditscope report: {error}\nAudit again to make one.") from error

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The published JSON schema of a report file."""
        from creditscope.records.schema import AsWritten

        return cls.model_json_schema(mode="serialization", schema_generator=AsWritten)
