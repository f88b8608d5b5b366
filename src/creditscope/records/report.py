"""Report: the result of an audit, which survives a round trip through JSON, NaN and infinity included."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr, computed_field, field_validator, model_validator

from creditscope.arguments import as_path
from creditscope.files import write_text
from creditscope.provenance import Guard, Source
from creditscope.records.frame import data_frame
from creditscope.records.judging import judged_findings, verdict_again
from creditscope.records.record import Document, Record, Share
from creditscope.verdict import Finding, Measurement, Verdict

HASH, SHOWN_HASH = "content_hash", 16  # its name in a file; the digits that a page shows
UNHASHED: Any = {  # the verdict follows from the findings; names, advice and the date are not evidence
    "verdict": True,
    HASH: True,
    "subject": {"name"},
    "provenance": {"created"},
    "findings": {"__all__": {"remedy", "means", "does_not_mean"}},
}
MOST_BLOCKS = 100_000  # of a network; a table per layer has a row for each


def checked_codes(findings: dict[str, Finding]) -> dict[str, Finding]:
    """The findings; one under the code of another diagnostic is refused."""
    for code, finding in findings.items():
        if code.partition(":")[0] != finding.code.partition(":")[0]:
            raise ValueError(f"the finding {finding.code!r} stands under the code {code!r}")
    return findings


class Subject(Record):
    """What was audited."""

    name: str
    notes: str = ""
    model: str
    depth: int = Field(ge=0, le=MOST_BLOCKS)
    widths: tuple[int, ...] = ()
    parameters: int = Field(default=0, ge=0)


class Provenance(Record):
    """Where the numbers come from: software, device, threads, data and guards."""

    creditscope: str
    torch: str
    python: str
    commit: str | None = None
    device: str
    dtype: str
    images: int = Field(ge=1, le=10**12)
    batches: int = Field(ge=0, le=10**12)
    read: str
    guards: dict[str, Guard] = Field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    control_seeds: tuple[int, ...] = ()
    created: str = ""
    threads: int | None = None  # of PyTorch; None in reports of before 2026-11-17


class UpdateRow(Record):
    """Γ^W of one stage or one parameter tensor: its cosine with the backprop gradient, and the same by chance.

    own   the cosine with what the method itself descends, where that is not the loss
    """

    name: str
    stage: int
    cosine: float
    null: float | None = None
    null_std: float | None = None
    own: float | None = None


class UpdateTable(Record):
    """Γ^W per stage and per parameter tensor; stage 0 is the embedding, the last one the read-out.

    whole      the cosine over all parameters, as usually reported
    null_kind  what was drawn for the null: fresh feedback, or permuted labels
    reference  what the method itself descends; empty: the loss
    """

    stages: tuple[UpdateRow, ...]
    tensors: tuple[UpdateRow, ...]
    whole: float
    null_kind: str
    draws: int
    batches: int
    images: int
    reference: str = ""


class Report(Document):
    """An audit: subject, findings, measures without a limit, verdict and provenance.

    exact_layers   layers whose credit is the gradient by construction
    accuracy_source, control_source   whether an accuracy was measured here, read from records, or typed in
    """

    noun: ClassVar[str] = "report"
    remedy: ClassVar[str] = "audit"
    subject: Subject
    protocol: str
    accuracy: tuple[Share, ...] | None = None
    control_accuracy: tuple[Share, ...] | None = None
    accuracy_source: Source | None = None
    control_source: Source | None = None
    findings: dict[str, Finding]
    measures: dict[str, Measurement] = Field(default_factory=dict)
    updates: UpdateTable | None = None
    exact_layers: tuple[int, ...] = ()
    verdict: Verdict
    provenance: Provenance
    _told: str = PrivateAttr(default="")  # about the verdict in its file, where the findings give another one

    _by_code = field_validator("findings")(checked_codes)

    def judged_again(self) -> Self:
        """The report with statuses and verdict computed again from the numbers and limits of its findings."""
        findings = judged_findings(self.findings)
        verdict, told = verdict_again(self.protocol, findings, self.verdict)
        if findings == self.findings and not told:
            return self
        again = self.model_copy(update={"findings": findings, "verdict": verdict})
        again._told = told
        return again.with_verdict(verdict)

    def with_verdict(self, verdict: Verdict, **update: Any) -> Self:
        """The report with another verdict; a warning tells if that in its file did not follow from the findings."""
        warnings = (*([self._told] if self._told else []), *verdict.warnings)
        return self.model_copy(update={**update, "verdict": replace(verdict, warnings=warnings)})

    @computed_field  # type: ignore[prop-decorator]
    @property
    def content_hash(self) -> str:
        """SHA-256 of evidence and provenance: numbers, limits, notes, settings; not of wording, date or verdict.

        Over JSON with sorted keys, without fields at their defaults: a later version that adds a field keeps the hash.
        """
        content = json.loads(self.model_dump_json(exclude=UNHASHED, exclude_defaults=True))
        return sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @model_validator(mode="before")
    @classmethod
    def _without_hash(cls, data: Any) -> Any:
        """The hash in a file is what the writer computed; `creditscope verify` compares it."""
        return {name: part for name, part in data.items() if name != HASH} if isinstance(data, dict) else data

    def __str__(self) -> str:
        return self.to("text").rstrip("\n")

    def _repr_html_(self) -> str:
        from creditscope.report.notebook import fragment

        return fragment(self)

    def __repr__(self) -> str:
        return f"Report({self.subject.name!r}, {self.verdict})"

    def to(self, format: str, path: Path | str | None = None) -> str:
        """The report in a registered format (text, markdown, html, latex, json, csv); written to `path` if given."""
        from creditscope.report.formats import formats
        from creditscope.report.views import from_report

        text = formats[format].render(from_report(self))
        if path is not None:
            write_text(path, text)
        return text

    def to_html(self, path: Path | str) -> Path:
        """Write the report as one page that needs no network; its path."""
        self.to("html", as_path(path))
        return Path(path)

    def to_latex(self, path: Path | str | None = None) -> str:
        """Booktabs tables and the reporting form; written to `path` too if one is given."""
        return self.to("latex", path)

    def to_model_index(self, dataset: str = "", task: str = "image-classification", url: str = "") -> list[Any]:
        """The `model-index` of a model card on the Hugging Face hub; `dataset` is its id there, `url` the report's."""
        from creditscope.report.hub import model_index

        return model_index(self, dataset, task, url)

    def to_eval_results(
        self, dataset: str, task_id: str = "default", *, url: str = "", path: Path | str | None = None
    ) -> str:
        """A YAML file for `.eval_results` on the hub: the accuracy on a benchmark, the audit in its notes."""
        from creditscope.report.hub import eval_results, yaml_text

        text = yaml_text(eval_results(self, dataset, task_id, url))
        if path is not None:
            write_text(path, text)
        return text

    def to_frame(self) -> Any:
        """A data frame of pandas or polars with one row per finding and measure, as in the CSV format."""
        from creditscope.report.formats.csv import rows
        from creditscope.report.views import from_report

        return data_frame(rows(from_report(self)))

    def to_markdown(self, path: Path | str | None = None) -> str:
        """The same for a README or a rebuttal; written to `path` too if one is given.

        >>> import creditscope, torch
        >>> from creditscope.networks.build import build
        >>> network = build("resmlp", 6, 3, seed=0, d=8, depth=2)
        >>> report = creditscope.audit(network, [(torch.eye(6), torch.arange(6) % 3)], name="untrained")
        >>> "untrained" in report.to_markdown()
        True
        """
        return self.to("markdown", path)
