"""Readings of the systems whose recipes the published text leaves open, and their distance to the published numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from creditscope.papers import quantities as q
from creditscope.papers.archive import RunArchive, SelectedRuns
from creditscope.papers.claims import Answer, Claim, ClaimStatus, claim
from creditscope.papers.comparison import errors_apart
from creditscope.papers.paper import RunGroup, Where
from creditscope.papers.quantities import ACCURACY, DEEPEST_GRADIENT, DEEPEST_STATE, GROWTH, Quantity
from creditscope.papers.tables import ComparisonRow, RunKeys, aggregate_row, common_length
from creditscope.records.labels import counted, label, named
from creditscope.runs.spec import RunSpec

SECOND = "nearest_readings"  # 30 epochs on three seeds
NEAR = 2.0  # standard errors, for every published number
DISTANCE = Quantity("distance", "distance to all published numbers, in standard errors", "count")
RULE = (
    "The distance of a reading is the root mean square, over all published numbers of its system, of ours minus "
    "published in standard errors: s·√(1/n + 1/m) for n seeds of ours and m published ones, s the published spread. A "
    "number without a published spread counts half the tolerance of its kind as one, or half of itself if its kind "
    "has none. Scales are compared as decimal logarithms, of a range the nearest point counts, and a number that ours "
    "rounds to is at 0. A run that diverged, or an undefined number, is infinitely far. The drift of w2 alone, which "
    "we do not measure, and the flags are left out."
)


@dataclass(frozen=True, slots=True)
class PublishedTarget:
    """Published numbers of a system at one penalty: the experiment and row that hold them, and which they are."""

    penalty: float
    source: tuple[str, str]
    quantities: tuple[Quantity, ...]


FUNCTION = (q.DEEP_GAMMA, q.RHO_ABSOLUTE, q.NUDGE_ABSOLUTE, q.LOSS_DROP, q.EMBED_DRIFT)
EXPLODED = (ACCURACY, q.REPORTED_GAMMA, DEEPEST_GRADIENT, q.DRIFT)
SYSTEMS: dict[str, tuple[PublishedTarget, ...]] = {
    "credit_bridge": (
        PublishedTarget(1e-2, ("penalty", "credit_bridge, penalty 0.01"), (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT)),
        PublishedTarget(1e-2, ("triangulation", "credit_bridge, penalty 0.01"), FUNCTION),
        PublishedTarget(0.0, ("main_audit", "credit_bridge"), EXPLODED),
    ),
    "state_bridge": (
        PublishedTarget(0.0, ("main_audit", "state_bridge"), EXPLODED),
        PublishedTarget(1e-2, ("penalty", "state_bridge, penalty 0.01"), (ACCURACY,)),
        PublishedTarget(1e-2, ("triangulation", "state_bridge, penalty 0.01"), FUNCTION),
    ),
    "ep": (PublishedTarget(0.0, ("main_audit", "ep"), (ACCURACY, DEEPEST_STATE, DEEPEST_GRADIENT, GROWTH)),),
}


@dataclass(frozen=True, slots=True)
class SystemReading:
    """One reading of a system in a study: its published numbers, and what separates its runs from them.

    apart   the difference of every published number in standard errors, by penalty and quantity; None without runs
    """

    name: str
    ours: bool
    groups: tuple[RunGroup, ...]
    runs: RunKeys
    apart: dict[str, float] | None

    @property
    def distance(self) -> float:
        """The root mean square of all differences; NaN without runs."""
        if self.apart is None:
            return math.nan
        return math.sqrt(sum(z * z for z in self.apart.values()) / len(self.apart))

    @property
    def largest(self) -> tuple[float, str]:
        """The largest difference, and the number that it belongs to."""
        return max((z, name) for name, z in (self.apart or {"": math.nan}).items())

    @property
    def text(self) -> str:
        """The distance in words."""
        z, name = self.largest
        return f"{self.name} at {self.distance:.3g} (largest {z:.3g}: {name})"


def readings_of(archive: RunArchive, study: str, system: str) -> list[SystemReading]:
    """The readings of a system in a study, nearest first, then those without a record."""
    specs = [spec for spec in archive.plan(study).values() if (spec.method, spec.control) == (system, "none")]
    firsts = {repr(sorted(spec.options("method").items())): spec for spec in reversed(specs)}
    penalties = {spec.penalty for spec in specs}
    readings = [_reading(archive, study, spec, penalties) for spec in reversed(firsts.values())]
    return sorted(readings, key=lambda reading: (reading.apart is None, reading.distance))


def _reading(archive: RunArchive, study: str, spec: RunSpec, penalties: set[float]) -> SystemReading:
    options, plain = spec.options("method"), RunSpec(method=spec.method).options("method")
    changed = {option: value for option, value in options.items() if value != plain[option]}
    apart: dict[str, float] = {}
    groups, selected = [], []
    for numbers in SYSTEMS[spec.method]:
        if numbers.penalty not in penalties:
            continue
        where: Where = {f"method.{option}": value for option, value in options.items()}
        where = {"method": spec.method, "penalty": numbers.penalty, **where}
        row = label(spec.model_copy(update={"penalty": numbers.penalty, "method_options": changed}).settings())
        groups.append(RunGroup(row, where, numbers.quantities, beside=numbers.source))
        selected.append(archive.select(study, where))
        apart |= _apart(archive, numbers, selected[-1])
    complete = all(runs.records and not runs.missing for runs in selected)
    name = named(spec.model_copy(update={"method_options": changed}).settings(), "method")
    own = not changed
    return SystemReading(
        f"{name}, ours" if own else name, own, tuple(groups), _keys(selected), apart if complete else None
    )


def _keys(selected: Sequence[SelectedRuns]) -> RunKeys:
    """The runs of a reading."""
    keys = tuple(dict.fromkeys(key for runs in selected for key in runs.records))
    seeds = tuple(dict.fromkeys(seed for runs in selected for seed in runs.seeds))
    return RunKeys(keys, seeds=seeds, epochs=common_length(s for runs in selected for s in runs.specs.values()))


def _apart(archive: RunArchive, numbers: PublishedTarget, runs: SelectedRuns) -> dict[str, float]:
    """The differences in standard errors by name; infinite for a run that diverged."""
    differences = {}
    for quantity in numbers.quantities:
        figure = archive.figure(*numbers.source, quantity.name)
        if figure is None or not runs.records:
            continue
        diverged = any(record.diverged is not None for record in runs.records.values())
        values = [quantity.read(record) for record in runs.records.values()]
        name = f"{quantity.heading}, penalty {numbers.penalty:g}" if numbers.penalty else quantity.heading
        differences[name] = math.inf if diverged else errors_apart(values, figure, quantity.kind)
    return differences


def readings_table(archive: RunArchive, study: str, systems: Sequence[str]) -> Iterator[RunGroup | ComparisonRow]:
    """The distance of every reading, nearest first, then each of its numbers beside the published one."""
    readings = [reading for system in systems for reading in readings_of(archive, study, system)]
    for reading in readings:
        z, name = reading.largest
        values = [] if reading.apart is None else [reading.distance]
        note = f"largest: {z:.3g}, {name}" if values else ""
        yield aggregate_row(None, reading.name, DISTANCE, values, reading.runs, note=note)
    for reading in readings:
        yield from reading.groups


def nearest_reading(system: str, title: str) -> Claim:
    """Whether a reading of a system comes within two standard errors of every published number.

    The second stage decides: after the few epochs of the first one, a reading may pass by a number on its way.
    """
    study = f"readings_{system}"

    @claim(
        f"A reading of {title} comes within {NEAR:g} standard errors of every published number",
        study,
        holds_if="one reading does so in the second stage, which trains longer; it fails if every reading has run and "
        "none does",
    )
    def ask(archive: RunArchive) -> Answer:
        texts, keys, near, complete = [], [], False, True
        for name in (study, SECOND):
            readings = readings_of(archive, name, system)
            known = [reading for reading in readings if reading.apart is not None]
            complete = complete and len(known) == len(readings)
            if not known:
                continue
            near = name == SECOND and any(reading.largest[0] <= NEAR for reading in known)
            length = counted(known[0].runs.epochs or 0, "epoch")
            own = [f", {reading.text}" for reading in known[1:] if reading.ours]
            texts.append(
                f"{length}, {len(known)} of {counted(len(readings), 'reading')}: {known[0].text}{''.join(own)}"
            )
            keys += [key for reading in known for key in reading.runs.keys]
        if not texts:
            return Answer(ClaimStatus.UNDECIDED, "no run yet")
        status = ClaimStatus.HOLDS if near else ClaimStatus.FAILS if complete else ClaimStatus.UNDECIDED
        return Answer(status, "; ".join(texts), tuple(dict.fromkeys(keys)))

    return ask


NEAREST = (
    nearest_reading("credit_bridge", "Credit Bridge"),
    nearest_reading("state_bridge", "State Bridge"),
    nearest_reading("ep", "EP"),
)
