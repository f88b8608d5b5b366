"""The record of a training run: spec, resolved options, facts of its rule, history and report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

from pydantic import Field, field_validator

from creditscope.records.declared import DeclaredRun
from creditscope.records.record import Document, Record, Share
from creditscope.records.report import Report
from creditscope.verdict import DIVERGED, Verdict


class HistoryRow(Record):
    """One epoch of a training run.

    Norms, d1, d2 and gamma are measured on the first 1,024 test images, on 256 where the training set is small.
    """

    epoch: int
    loss: float
    accuracy: Share
    hidden_norms: tuple[float, ...]
    gradient_norms: tuple[float, ...]
    d1: float
    d2: float
    gamma: tuple[float, ...] = ()
    gamma_clamped: tuple[float, ...] = ()
    auxiliary: dict[str, float] = Field(default_factory=dict)
    angles: dict[str, float] = Field(default_factory=dict)  # of learnt feedback to its weight, in degrees


class Divergence(Record):
    """When and why a run stopped early."""

    epoch: int
    step: int | None = None
    why: str


class MethodFacts(Record):
    """What a credit rule declares about itself.

    summary   what it does, in one sentence
    formula   its credit a_l
    feedback  the law of its fixed random feedback; empty if it draws none
    paper     where it comes from
    reference what it descends where that is not the loss; empty: BP
    """

    name: str
    summary: str
    formula: str
    feedback: str = ""
    paper: str = ""
    reference: str = ""


class NetworkFacts(Record):
    """What a network declares about itself; `terminal_layernorm`: whether a LayerNorm precedes its read-out."""

    name: str
    summary: str
    terminal_layernorm: bool


class RunRecord(Document):
    """The record of a training run, everything but its weights.

    spec      the run as it was declared
    resolved  every option of the run by its flat name ("method.index"), defaults included
    method    facts of its rule; None if the rule is not registered, or in records of before 2026-11
    network   facts of its network, likewise
    revisions of network, data, method and recipe, which its key holds; empty in records of before 2026-11-17
    threads   of PyTorch while it trained; None in records of before 2026-11-17, made with one
    weights_checksum  SHA-256 of its weights file; empty where none was written, or before 2026-11-17
    """

    noun: ClassVar[str] = "run record"
    remedy: ClassVar[str] = "train"
    key: str = ""
    spec: dict[str, Any] = Field(default_factory=dict)
    resolved: dict[str, Any] = Field(default_factory=dict)
    method: MethodFacts | None = None
    network: NetworkFacts | None = None
    versions: dict[str, str]
    commit: str | None = None
    revisions: dict[str, int] = Field(default_factory=dict)
    device: str
    data_checksum: str = ""
    threads: int | None = None
    weights_checksum: str = ""
    test_images: int = Field(ge=1, le=10**12)
    history: tuple[HistoryRow, ...]
    diverged: Divergence | None = None
    timings: dict[str, float] = Field(default_factory=dict)
    report: Report | None = None

    @field_validator("spec")
    @classmethod
    def _declares_a_run(cls, spec: dict[str, Any]) -> dict[str, Any]:
        if spec:
            DeclaredRun.model_validate(spec)
        return spec

    @field_validator("resolved")
    @classmethod
    def _plain_options(cls, resolved: dict[str, Any]) -> dict[str, Any]:
        DeclaredRun.model_validate({name: resolved[name] for name in DeclaredRun.model_fields if name in resolved})
        for name, value in resolved.items():
            parts = value if isinstance(value, list | tuple) else [value]
            if not all(part is None or isinstance(part, bool | int | float | str) for part in parts):
                raise ValueError(f"the option {name!r} is neither a number, a text, true or false, nor a list of these")
        return resolved

    def judged_again(self) -> Self:
        """The record with the verdict of its report computed again."""
        if self.report is None:
            return self
        report = self.report.judged_again()
        verdict = report.verdict
        if self.diverged is not None and verdict.outcome == "pass":
            verdict = after_divergence(verdict, self.diverged)
        if report is self.report and verdict is report.verdict:
            return self
        return self.model_copy(update={"report": report.model_copy(update={"verdict": verdict})})

    @property
    def accuracy(self) -> float:
        """Test accuracy after the last epoch."""
        return self.history[-1].accuracy if self.history else float("nan")


def after_divergence(verdict: Verdict, diverged: Divergence | None, run: str = "The run") -> Verdict:
    """The verdict of a run that stopped early: it never passes, and a warning says why; `run` is its name there."""
    if diverged is None:
        return verdict
    said = f"{run} diverged in epoch {diverged.epoch + 1}: {diverged.why}."
    warnings = (*verdict.warnings, said)
    if verdict.outcome != "pass":
        return replace(verdict, warnings=warnings)
    return replace(verdict, text=DIVERGED, outcome="inconclusive", why=said, warnings=warnings)
