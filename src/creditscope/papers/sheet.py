"""What is a table of a reproduction?  Rows of ours beside the published, each number with the keys of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from creditscope.papers.book import LAPTOP, Book, Found, Where
from creditscope.papers.comparison import Compared, Kind, Outcome, compare, compare_flags
from creditscope.papers.published import Figure, published
from creditscope.papers.quantities import Quantity
from creditscope.records.record import Record
from creditscope.runs.spec import RunSpec
from creditscope.study.tables import SeedRow
from creditscope.verdict import Finding, Status


class Line(Record):
    """One number of a table: ours, one value per seed, the published one, and whether they agree.

    keys     the runs behind it; `twins` are frozen ones that they were held against
    epochs   how long these were trained, where all alike
    """

    row: str
    quantity: str
    heading: str
    kind: Kind
    values: tuple[float, ...] = ()
    texts: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    twins: tuple[str, ...] = ()
    epochs: int | None = None
    seeds: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    published: Figure | None = None
    outcome: Outcome
    difference: float | None = None
    errors: float | None = None
    note: str = ""


class Sheet(Record):
    """The table of one experiment under one budget; `ours` and `theirs` say how long and on which seeds."""

    schema_version: Literal[1] = 1
    experiment: str
    number: int
    title: str
    budget: str
    ours: str
    theirs: str
    lines: tuple[Line, ...]

    @property
    def stem(self) -> str:
        """What its files are called; another budget never overwrites the usual one."""
        return self.experiment if self.budget == LAPTOP else f"{self.experiment}-{self.budget}"

    def to_json(self) -> str:
        """The table as JSON text."""
        return self.model_dump_json(indent=1) + "\n"


def figure(experiment: str, row: str, quantity: str) -> Figure | None:
    """A published figure, if there is one."""
    return published().figures.get(experiment, {}).get(row, {}).get(quantity)


def lines(
    book: Book, experiment: str, row: str, where: Where, quantities: Sequence[Quantity], *, study: str = ""
) -> list[Line]:
    """One line for every quantity of the runs with these settings."""
    found = book.find(study or experiment, where)
    stopped, over = _stopped(found), published().epochs(experiment)
    length = length_of(found.specs.values())
    made = []
    for quantity in quantities:
        values = tuple(quantity.read(record) for record in found.records.values())
        shown = figure(experiment, row, quantity.name)
        epochs = min((len(record.history) for record in found.records.values()), default=None)
        one = line(row, quantity, compare(values, shown, quantity.kind, epochs, over), shown)
        made.append(
            one.model_copy(
                update={
                    "values": values,
                    "keys": tuple(found.records),
                    "epochs": length,
                    "seeds": tuple(found.specs[key].seed for key in found.records),
                    "missing": found.missing,
                    "note": _joined(one.note, stopped, "" if found.specs else "not in this budget"),
                }
            )
        )
    return made


def length_of(specs: Iterable[RunSpec]) -> int | None:
    """For how many epochs runs were trained, where all alike."""
    lengths = {spec.epochs for spec in specs}
    return lengths.pop() if len(lengths) == 1 else None


def _stopped(found: Found) -> str:
    """Which runs diverged: their numbers are those of a network that was not trained to the end."""
    early = [
        f"seed {found.specs[key].seed} diverged in epoch {record.diverged.epoch + 1}"
        for key, record in found.records.items()
        if record.diverged is not None
    ]
    return ", ".join(early)


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def line(row: str, quantity: Quantity, compared: Compared, shown: Figure | None) -> Line:
    """A line without its numbers."""
    return Line(
        row=row,
        quantity=quantity.name,
        heading=quantity.heading,
        kind=quantity.kind,
        published=shown,
        outcome=compared.outcome,
        difference=compared.difference,
        errors=compared.errors,
        note=_joined(compared.note, shown.note if shown is not None else ""),
    )


FLAGS = Quantity("flags", "flags (a), (b), (d)", "flags")
LETTERS = {"D0": "non-finite", "D1": "(a)", "D2": "(b)", "D3": "(d)"}  # (c), drift, has a line of its own


def flag_line(book: Book, experiment: str, row: str, where: Where) -> Line:
    """The published flags per seed, from each seed's findings."""
    found = book.audited(experiment, where)
    seeds = found.seeds if found is not None else ()
    raised = [{letter: _raised(seed.findings.get(code)) for code, letter in LETTERS.items()} for seed in seeds]
    flags = [tuple(letter for letter, is_up in one.items() if is_up) for one in raised]
    unknown = [tuple(letter for letter, is_up in one.items() if is_up is None) for one in raised]
    shown = figure(experiment, row, "flags")
    made = line(row, FLAGS, compare_flags(flags, shown, unknown), shown)
    return made.model_copy(
        update={
            "texts": tuple(" ".join(one) or "none" for one in flags),
            "keys": tuple(seed.key for seed in seeds),
            "twins": twins(seeds),
            "epochs": found.spec.epochs if found is not None else None,
            "seeds": tuple(seed.seed for seed in seeds),
            "missing": found.missing if found is not None else (),
        }
    )


def twins(seeds: Sequence[SeedRow]) -> tuple[str, ...]:
    """The keys of the frozen runs that seeds were held against."""
    return tuple(seed.control_key for seed in seeds if seed.control_key)


def _raised(finding: Finding | None) -> bool | None:
    """Whether a flag is up, by the number alone as in the published functions; None where there is no number."""
    if finding is None or finding.value is None or finding.status not in (Status.PASS, Status.FIRES, Status.UNDECIDED):
        return None
    return finding.limit.past(finding.value)


def computed(
    experiment: str,
    row: str,
    quantity: Quantity,
    values: Sequence[float],
    keys: Sequence[str],
    *,
    against: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (),
    epochs: int | None = None,
    texts: tuple[str, ...] = (),
    note: str = "",
) -> Line:
    """A line that was computed from several runs at once, `against` their frozen twins where that enters.

    `texts` alone have nothing published to be held against.
    """
    shown = figure(experiment, row, quantity.name)
    compared = compare(values, shown, quantity.kind)
    if texts and not values and shown is None:
        compared = Compared(Outcome.NOT_PUBLISHED)
    made = line(row, quantity, compared, shown)
    return made.model_copy(
        update={
            "values": tuple(values),
            "keys": tuple(keys),
            "twins": against,
            "seeds": seeds,
            "epochs": epochs,
            "texts": texts,
            "note": _joined(made.note, note),
        }
    )
