"""The part of a run's record from which a study is judged: settings, accuracies and findings, without the rest.

A table over thousands of runs reads no history but its accuracies, no measures and no weights' cosines. What is read is
validated as in the whole record; what is left out is neither validated nor used.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from creditscope.reading import seal_holds
from creditscope.records.judging import judged_findings
from creditscope.records.record import Record, Share
from creditscope.records.report import checked_codes
from creditscope.records.run import Divergence, RunRecord
from creditscope.verdict import Finding


class _Part(Record):
    """Some fields of a larger record."""

    model_config = ConfigDict(extra="ignore")


class EpochAccuracy(_Part):
    """The accuracy after one epoch."""

    accuracy: Share


class SubjectSummary(_Part):
    """How many blocks the network has."""

    depth: int = Field(ge=0)


class ReportSummary(_Part):
    """The findings of a report, judged again from their numbers, and the control that they were judged beside."""

    subject: SubjectSummary
    protocol: str
    control_accuracy: tuple[Share, ...] | None = None
    findings: dict[str, Finding]

    @field_validator("findings")
    @classmethod
    def _judged(cls, findings: dict[str, Finding]) -> dict[str, Finding]:
        return judged_findings(checked_codes(findings))


class RunSummary(_Part):
    """The part of a run's record from which a study is judged; its fields are those of `RunRecord`.

    resolved   only compared as a whole, to find the control of a run
    """

    schema_version: Literal[2]
    key: str
    spec: dict[str, Any]
    resolved: dict[str, Any] = Field(default_factory=dict)
    test_images: int = Field(ge=1, le=10**12)
    history: tuple[EpochAccuracy, ...]
    diverged: Divergence | None = None
    report: ReportSummary | None = None

    @property
    def accuracy(self) -> float:
        """Test accuracy after the last epoch."""
        return self.history[-1].accuracy if self.history else float("nan")


class ControlSummary(RunSummary):
    """The same of a control, whose report is left out: its findings are not judged."""

    report: ReportSummary | None = Field(default=None, validation_alias="left out")


Judgeable = RunRecord | RunSummary


def summary_of(content: bytes, key: str, *, control: bool = False) -> RunSummary | None:
    """The summary in the file of a record whose checksum holds; None where the whole record has to be read instead.

    That is so for older records, and for a file that is not the sound record of this run: reading it says why.
    """
    if not seal_holds(content):
        return None
    try:
        summary = (ControlSummary if control else RunSummary).model_validate_json(_needed(content, control))
    except ValidationError:
        return None
    return summary if summary.key == key else None


def _needed(content: bytes, control: bool) -> bytes:
    """A record without what follows the fields of its summary, as `to_json` orders and indents them; else all of it.

    Parsing takes most of the time of a study's table. If the order were another one, the rest would lack a field.
    """
    mark, end = (b'\n "report":', b"null}") if control else (b'\n  "measures":', b"{}}}")
    head, found, _ = content.partition(mark)
    return head + mark + end if found else content
