"""An invented paper, and records of declared studies that nobody trained, in archives that hold them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from creditscope.diagnostics import diagnostics
from creditscope.papers.archive import RunArchive
from creditscope.papers.claims import Answer, Case, Claim, decide
from creditscope.papers.paper import Experiment, Paper, RunGroup, VerdictSection
from creditscope.papers.published import PublishedFigure, PublishedFigures
from creditscope.papers.quantities import ACCURACY, FIRST_D1, GROWTH, Flags, Quantity, at_epoch
from creditscope.papers.reasons import DifferenceReason
from creditscope.papers.tables import ComparisonRow, ComparisonTable, RunKeys, aggregate_row
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
Make = Callable[[RunSpec], RunRecord | None]
PLANS: dict[str, dict[tuple[str, str], Plan]] = {}  # of every paper, expanded once


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

    def summary(self, key: str, *, control: bool = False) -> RunRecord | None:
        return self.record(key) if key in self.made else None


def planned(paper: Paper, study: str, budget: str = "laptop") -> Plan:
    return RunArchive(paper, Store("nowhere"), budget, PLANS.setdefault(paper.name, {})).plan(study)


def archive(paper: Paper, make: Make | None = None, *studies: str, budget: str = "laptop") -> RunArchive:
    """An archive of the runs of these studies for which `make` gives a record."""
    runs = {key: spec for study in studies for key, spec in planned(paper, study, budget).items()}
    records = {key: made for key, spec in runs.items() if make is not None and (made := make(spec)) is not None}
    return RunArchive(paper, MadeStore(records), budget, PLANS.setdefault(paper.name, {}))


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
        key=spec.key,
        spec=spec.model_dump(mode="json"),
        versions={"creditscope": "0"},
        device="cpu",
        test_images=10_000,
        history=(*before, last.model_copy(update={"accuracy": accuracy})),
        diverged=Divergence(epoch=2, why="the loss is not finite") if diverged else None,
        timings={"seconds": 2.0},
        report=None if values is None else report(values, measures, cause),
    )


def figure(**fields: Any) -> PublishedFigure:
    return PublishedFigure(**fields)


def row(**fields: Any) -> ComparisonRow:
    usual = {"row": "dfa", "quantity": "accuracy", "heading": "accuracy", "kind": "share", "agreement": "not published"}
    return ComparisonRow(**{**usual, **fields})


def table(*rows: ComparisonRow, **fields: Any) -> ComparisonTable:
    usual = {"paper": "made", "experiment": "speed", "stem": "speed", "number": 2, "title": "A question?"}
    usual |= {"budget": "laptop", "ours": "5 epochs, seed 42", "theirs": "100 epochs, 3 seeds"}
    return ComparisonTable(**{**usual, "rows": rows, **fields})


# --- the invented paper ---

FLAGS = Flags("flags (x), (y)", {"D1": "(x)", "D3": "(y)"})
GAP = Quantity("gap", "points between the methods", "points")
FIRST_LOSS = at_epoch("loss", "loss", "size", 1, lambda row: row.loss, early=True)
PUBLISHED = PublishedFigures.model_validate(
    {
        "about": "invented",
        "settings": {"speed": {"epochs": 10, "seeds": "3 seeds", "note": "as stated"}, "size": {"epochs": 10}},
        "figures": {
            "speed": {
                "bp": {"accuracy": {"mean": 0.6, "std": 0.01}, "flags": {"flags": []}},
                "dfa": {"accuracy": {"mean": 0.3, "std": 0.01}, "flags": {"flags": ["(x)", "(y)"]}},
                "both": {"gap": {"mean": 30}},
            }
        },
    }
)


def speed(archive: RunArchive) -> Iterator[RunGroup | ComparisonRow]:
    """Two groups as data, and a row aggregated over both."""
    groups = [RunGroup(one, {"method": one, **index}, (ACCURACY, GROWTH), FLAGS) for one, index in METHODS.items()]
    yield from groups
    means = []
    for group in groups:
        records = archive.select("speed", group.where).records.values()
        means.append(sum(record.accuracy for record in records) / len(records) if records else None)
    gap = [100 * (means[0] - means[1])] if None not in means else []
    keys = [key for group in groups for key in archive.select("speed", group.where).records]
    yield aggregate_row(archive.figure("speed", "both", "gap"), "both", GAP, gap, RunKeys(keys))


def bp_is_better(archive: RunArchive) -> Answer:
    """BP's mean accuracy is above DFA's."""
    best, other = (archive.select("speed", {"method": one, **index}) for one, index in METHODS.items())
    if not best.records or not other.records:
        return decide([], 1)
    low = min(record.accuracy for record in best.records.values())
    high = max(record.accuracy for record in other.records.values())
    return decide([Case(f"{low:.2f} against {high:.2f}", low > high, (*best.records, *other.records))], 1)


METHODS: dict[str, dict[str, str]] = {"bp": {}, "dfa": {"method.index": "output"}}
BORROWED = RunGroup(
    "bp", {"network": "resmlp", "method": "bp"}, (ACCURACY, FIRST_D1, FIRST_LOSS), beside=("speed", "bp")
)
CLAIM = Claim("BP is better than DFA", "speed", bp_is_better, "the worst seed of BP beats the best of DFA")
MADE = Paper(
    protocol="three",
    name="made",
    title="An Invented Paper",
    citation="Nobody, An Invented Paper (2020)",
    studies=Path(__file__).parent / "studies",
    published=PUBLISHED,
    experiments=(
        Experiment("speed", "Which learns faster?", speed),
        Experiment("size", "Does size matter?", (BORROWED,)),
    ),
    claims=(CLAIM,),
    findings=(CLAIM,),
    reasons=(
        DifferenceReason(text="Twice.", quantities=("growth",), times_too_large=2),
        DifferenceReason(text="Only as published.", experiments=("speed",), rows=("bp",), budget="paper"),
        DifferenceReason(text="First.", experiments=("speed",), rows=("bp", "both")),
        DifferenceReason(text="Second.", rows=("bp",)),
    ),
    introduction="Words of the invented paper.",
    verdicts=VerdictSection("speed", "Our verdicts", lambda spec: spec.method, lambda archive: ["A remark."]),
    describe_runs=lambda specs: [f"{len({spec.method for spec in specs})} methods"],
)
