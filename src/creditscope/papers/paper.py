"""What a paper declares to be reproduced: experiments, published figures, claims and explanations, as one record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from creditscope.errors import UnknownName
from creditscope.options import Option
from creditscope.papers.published import PublishedFigures
from creditscope.papers.quantities import ACCURACY, DEEP_GAMMA, REPORTED_GAMMA, Flags, Quantity
from creditscope.papers.reasons import DifferenceReason
from creditscope.protocols import DEFAULT
from creditscope.records.run import HistoryRow
from creditscope.registry import unknown
from creditscope.runs.spec import RunSpec

if TYPE_CHECKING:
    from creditscope.papers.archive import RunArchive
    from creditscope.papers.claims import Claim
    from creditscope.papers.tables import ComparisonRow
    from creditscope.report.charts.margins import Decision

Where = Mapping[str, Option | Sequence[Option]]  # settings of runs; a sequence means any of these values


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Rows of a table, declared as data: the quantities of the runs with these settings.

    study        whose runs these are; the experiment's own if empty
    beside       experiment and row whose published figures apply; its own if None
    flags        also compare the published flags
    """

    row: str
    where: Where
    quantities: tuple[Quantity, ...]
    flags: Flags | None = None
    study: str = ""
    beside: tuple[str, str] | None = None

    def source(self, experiment: str) -> tuple[str, str]:
        """Experiment and row of its published figures."""
        return self.beside or (experiment, self.row)


Rows = Sequence[RunGroup] | Callable[["RunArchive"], Iterable["RunGroup | ComparisonRow"]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment: its question and its rows, declared or computed; its study has the same name.

    decisions   the ways of reporting and what each rejects, for the chart on the experiment's page
    rule        how its own quantities are computed, printed above the table
    """

    name: str
    question: str
    rows: Rows
    decisions: Callable[[RunArchive], Sequence[Decision]] | None = None
    rule: str = ""


@dataclass(frozen=True, slots=True)
class VerdictSection:
    """The experiment whose verdicts the paper's page shows, beside the published accuracy and flags.

    published_row   the row of the published figures that a run belongs to
    remarks         sentences below the table, computed from the records
    """

    experiment: str
    heading: str
    published_row: Callable[[RunSpec], str]
    remarks: Callable[[RunArchive], Iterable[str]] = lambda archive: ()


@dataclass(frozen=True, slots=True)
class CurvePanel:
    """One quantity after every epoch.

    read        the number in a row of a history, in `unit`; NaN where it was not measured
    published   by row of the picture, one number an epoch from the first one on
    """

    name: str
    title: str
    unit: str
    read: Callable[[HistoryRow], float]
    published: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class CurveSection:
    """The curves of one experiment: its rows by their settings, a picture for every quantity, and remarks below."""

    heading: str
    experiment: str
    rows: Mapping[str, Where]
    panels: tuple[CurvePanel, ...]
    remarks: Callable[[RunArchive], Iterable[str]] = lambda archive: ()


@dataclass(frozen=True, slots=True)
class Paper:
    """One paper: everything the engine needs to know about it.

    studies         the folder of study files, one for every experiment
    protocol        the protocol whose verdicts its tables show
    budgets         the default one first, the one as published last
    introduction    a paragraph for its page: notation, and how its names map to ours
    describe_runs   what a caption should add about the runs of a study
    curves          numbers after every epoch, ours beside the published ones
    accuracies, alignments   the quantities that the gallery shows as the claim; of several the first that is published
    """

    name: str
    title: str
    citation: str
    studies: Path
    published: PublishedFigures
    experiments: tuple[Experiment, ...]
    claims: tuple[Claim, ...] = ()
    findings: tuple[Claim, ...] = ()
    reasons: tuple[DifferenceReason, ...] = ()
    protocol: str = DEFAULT
    budgets: tuple[str, ...] = ("laptop", "paper")
    introduction: str = ""
    verdicts: VerdictSection | None = None
    describe_runs: Callable[[Sequence[RunSpec]], Iterable[str]] = lambda specs: ()
    curves: CurveSection | None = None
    accuracies: tuple[str, ...] = (ACCURACY.name,)
    alignments: tuple[str, ...] = (REPORTED_GAMMA.name, DEEP_GAMMA.name)

    @property
    def names(self) -> list[str]:
        """The names of its experiments, in order."""
        return [experiment.name for experiment in self.experiments]

    def experiment(self, name: str) -> Experiment:
        """One experiment by its name."""
        return self.experiments[self.number(name) - 1]

    def number(self, name: str) -> int:
        """The position of an experiment, counted from 1."""
        if name not in self.names:
            raise UnknownName(unknown("experiment", name, self.names))
        return self.names.index(name) + 1
