"""Which experiments are there?  One file and one decorator adds one; its study has the same name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from creditscope.registry import Registry
from creditscope.reproduction.book import PAPER, Book
from creditscope.reproduction.published import published
from creditscope.reproduction.sheet import Line, Sheet

Lines = Callable[[Book], Iterable[Line]]


@dataclass(frozen=True, slots=True)
class Experiment:
    """A published experiment: its number, what it asks, and how its table is read from records."""

    name: str
    number: int
    question: str
    lines: Lines


experiments: Registry[Experiment] = Registry("experiment", __name__)


def experiment(name: str, *, number: int, question: str) -> Callable[[Lines], Lines]:
    """Register the lines of an experiment's table."""

    def enter(function: Lines) -> Lines:
        experiments.add(name, Experiment(name, number, question, function))
        return function

    return enter


def in_order() -> list[Experiment]:
    """All experiments by number."""
    return sorted(experiments.values(), key=lambda one: one.number)


def sheets(book: Book) -> Iterator[Sheet]:
    """The table of every experiment; a second one where runs of another length, as published, are there too."""
    paper = Book(book.store, PAPER)
    for one in in_order():
        yield sheet(one.name, book)
        longer = set(paper.plan(one.name)) - set(book.plan(one.name))
        if any(paper.record(key) is not None for key in longer):
            yield sheet(one.name, paper)


def sheet(name: str, book: Book) -> Sheet:
    """The table of an experiment from the records that are there."""
    found = experiments[name]
    return Sheet(
        experiment=name,
        number=found.number,
        title=found.question,
        budget=book.budget,
        ours=trained_with(book, name),
        theirs=published().settings.get(name, ""),
        lines=tuple(found.lines(book)),
    )


def trained_with(book: Book, name: str) -> str:
    """Epochs and seeds of a study's runs in words."""
    specs = list(book.plan(name).values())
    epochs = sorted({spec.epochs for spec in specs})
    seeds = list(dict.fromkeys(spec.seed for spec in specs))
    length = " or ".join(str(number) for number in epochs)
    return f"{length} epochs, seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
