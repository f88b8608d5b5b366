"""Records of the declared studies that nobody trained, and books that hold them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from creditscope.diagnostics import diagnostics
from creditscope.papers.book import Book
from creditscope.papers.experiments import in_order
from creditscope.papers.published import Figure
from creditscope.papers.sheet import Line, Sheet
from creditscope.protocols import judge, protocol_named
from creditscope.records.report import Provenance, Report, Subject
from creditscope.records.run import Divergence, HistoryRow, RunRecord
from creditscope.runs.spec import RunSpec
from creditscope.study.plan import Plan
from creditscope.study.store import Store
from creditscope.verdict import Finding, Measurement

HEALTHY = {"D0": 0.0, "D1": 1.5, "D2": 1e-3, "D4": 0.1}
EXPLODED = {"D0": 0.0, "D1": 7e3, "D2": 1e-9, "D4": 0.1}
ALIGNED = {"gamma_clamped_mean": Measurement(0.1)}
Made = Callable[[RunSpec], RunRecord | None]


class MadeStore(Store):
    """A store without a disk."""

    def __init__(self, records: Mapping[str, RunRecord]) -> None:
        super().__init__("nowhere")
        self.made = dict(records)
        self.reads = 0

    def record_path(self, key: str) -> Path | None:
        return Path(f"{key}.json") if key in self.made else None

    def record(self, key: str) -> RunRecord:
        self.reads += 1
        return self.made[key]


@cache
def planned(study: str, budget: str = "laptop") -> Plan:
    return Book(Store("nowhere"), budget).plan(study)


def book(make: Made | None = None, *studies: str, budget: str = "laptop") -> Book:
    """A book over the runs of these studies for which `make` gives a record."""
    runs = {key: spec for study in studies for key, spec in planned(study, budget).items()}
    records = {key: made for key, spec in runs.items() if make is not None and (made := make(spec)) is not None}
    return Book(MadeStore(records), budget, {one.name: planned(one.name, budget) for one in in_order()})


def finding(code: str, value: float, cause: str = "") -> Finding:
    entry, measured = diagnostics[code], Measurement(value, cause=cause)
    return Finding(code, entry.title, entry.limit.judge(measured), measured, entry.limit, "", "")


def report(values: Mapping[str, float], measures: Mapping[str, Measurement], cause: str = "collapsed") -> Report:
    findings = {code: finding(code, value, cause if code == "D2" else "") for code, value in values.items()}
    where = Provenance(
        creditscope="0", torch="0", python="0", device="cpu", dtype="float32", images=1000, batches=8, read="auto"
    )
    return Report(
        subject=Subject(name="a run", model="ResidualMLP", depth=4),
        protocol="three",
        findings=findings,
        measures=dict(measures),
        verdict=judge(protocol_named("three"), findings),
        provenance=where,
    )


def epoch(number: int = 1, **fields: Any) -> HistoryRow:
    """The row of an epoch, counted from 1, of a network of four blocks."""
    usual: dict[str, Any] = {
        "loss": 1.0,
        "accuracy": 0.5,
        "hidden_norms": (9.0, 9.0, 9.0, 9.0, 9.0),
        "gradient_norms": (0.1, 0.1, 0.1, 0.1, 0.1),
        "d1": 1.5,
        "d2": 1e-3,
    }
    return HistoryRow(epoch=number - 1, **{**usual, **fields})


def run(
    spec: RunSpec,
    accuracy: float = 0.5,
    values: Mapping[str, float] | None = HEALTHY,
    measures: Mapping[str, Measurement] = ALIGNED,
    history: Sequence[HistoryRow] = (),
    *,
    cause: str = "collapsed",
    diverged: bool = False,
) -> RunRecord:
    """The record of a run; without `values` it was never audited. The last row has the accuracy."""
    *before, last = history or (epoch(),)
    return RunRecord(
        spec=spec.model_dump(mode="json"),
        versions={"creditscope": "0"},
        device="cpu",
        test_images=10_000,
        history=(*before, last.model_copy(update={"accuracy": accuracy})),
        diverged=Divergence(epoch=2, why="the loss is not finite") if diverged else None,
        timings={"seconds": 2.0},
        report=None if values is None else report(values, measures, cause),
    )


def figure(**fields: Any) -> Figure:
    return Figure(**fields)


def line(**fields: Any) -> Line:
    usual = {"row": "dfa", "quantity": "accuracy", "heading": "accuracy", "kind": "share", "outcome": "not published"}
    return Line(**{**usual, **fields})


def sheet(*lines: Line, **fields: Any) -> Sheet:
    usual = {"experiment": "wide", "number": 2, "title": "A question?", "budget": "laptop", "ours": "5 epochs, seed 42"}
    return Sheet(**{**usual, "theirs": "100 epochs, 3 seeds", "lines": lines, **fields})
