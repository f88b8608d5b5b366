"""The report of an experiment: a method and its controls over seeds, trained by the user's own loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, PrivateAttr

from creditscope.files import write_text
from creditscope.records.frame import data_frame
from creditscope.records.record import Document, Record
from creditscope.records.report import Report
from creditscope.verdict import Finding, Verdict


class ExperimentRun(Record):
    """One trained network of an experiment.

    accuracy   share of right answers on the batches of the experiment
    evaluated  what the user's own function said
    right      which images it got right, in order: bits as hexadecimal digits, the first image in the highest bit
    report     its audit; None for a control
    """

    variant: str
    seed: int
    accuracy: float
    evaluated: float
    images: int
    right: str
    report: Report | None = None


class ExperimentReport(Document):
    """What an experiment gave: one report over seeds, the runs behind it, and the margin over every control.

    report    over all seeds: D3 paired over seeds and images, every other diagnostic by its findings on each seed
    margins   D3 against each control, by its name
    settle    seeds per arm that would settle an undecided D3 with 80 %; None if it is settled, or beyond a thousand
    networks  the trained networks by variant and seed; empty where the experiment was read from a file
    """

    noun: ClassVar[str] = "experiment"
    remedy: ClassVar[str] = "run the experiment"
    readable: ClassVar[tuple[int, ...]] = (2,)
    name: str
    seeds: tuple[int, ...]
    variants: tuple[str, ...]
    blocks: tuple[str, ...]
    runs: tuple[ExperimentRun, ...]
    report: Report
    margins: dict[str, Finding] = Field(default_factory=dict)
    settle: int | None = None
    _networks: dict[str, dict[int, Any]] = PrivateAttr(default_factory=dict)

    @property
    def verdict(self) -> Verdict:
        """The verdict over all seeds."""
        return self.report.verdict

    @property
    def findings(self) -> Mapping[str, Finding]:
        """The findings over all seeds, by code."""
        return self.report.findings

    @property
    def networks(self) -> Mapping[str, Mapping[int, Any]]:
        """The trained networks: networks["frozen"][1]."""
        return self._networks

    def holding(self, networks: dict[str, dict[int, Any]]) -> ExperimentReport:
        """The same experiment with its networks."""
        self._networks.update(networks)
        return self

    def accuracy(self, variant: str = "trained") -> tuple[float, ...]:
        """The accuracies of a variant on the batches, one per seed."""
        return tuple(run.accuracy for run in self.runs if run.variant == variant)

    def judged_again(self) -> Self:
        """The experiment with every verdict computed again."""
        runs = tuple(_run_again(run) for run in self.runs)
        return self.model_copy(update={"report": self.report.judged_again(), "runs": runs})

    def rows(self) -> list[dict[str, Any]]:
        """One row per run: accuracies, its margin over the frozen control, its findings and verdict where audited."""
        codes = list(self.report.findings)
        frozen = {run.seed: run.accuracy for run in self.runs if run.variant == "frozen"}
        return [_row(run, frozen, codes) for run in self.runs]

    def to_frame(self) -> Any:
        """A data frame of pandas or polars with one row per run."""
        return data_frame(self.rows())

    def to_html(self, path: Path | str) -> Path:
        """Write the report over seeds as one page that needs no network; its path."""
        return self.report.to_html(path)

    def to_latex(self, path: Path | str | None = None) -> str:
        """A booktabs table of the variants, then the report over seeds; written to `path` too if one is given."""
        from creditscope.report.experiment import latex

        text = latex(self)
        if path is not None:
            write_text(path, text)
        return text

    def __str__(self) -> str:
        from creditscope.report.experiment import text

        return text(self)

    def _repr_html_(self) -> str:
        return self.report._repr_html_()

    def __repr__(self) -> str:
        return f"ExperimentReport({self.name!r}, {len(self.seeds)} seeds, {self.verdict})"


def _run_again(run: ExperimentRun) -> ExperimentRun:
    return run if run.report is None else run.model_copy(update={"report": run.report.judged_again()})


def _row(run: ExperimentRun, frozen: Mapping[int, float], codes: Sequence[str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "variant": run.variant,
        "seed": run.seed,
        "accuracy": run.accuracy,
        "evaluated": run.evaluated,
        "images": run.images,
    }
    own, report = run.variant == "trained", run.report
    row["margin"] = 100 * (run.accuracy - frozen[run.seed]) if own and run.seed in frozen else None
    for code in codes:
        finding = report.findings.get(code) if report is not None else None
        row[code] = None if finding is None else finding.value
        row[f"{code}_status"] = None if finding is None else finding.status.value
    row["verdict"] = None if report is None else str(report.verdict)
    return row
